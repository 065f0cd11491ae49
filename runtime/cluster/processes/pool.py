"""The processes of a Runner's agents: some stand ready, agents move in when they are spoken to, and out when they are idle.

All is decided on the Runner's event loop, between one `await` and the next. An agent moves out only when nothing that was sent to
it is unanswered and nobody is about to send it anything, and from that moment on nothing can be: so no message ever goes to an
agent that has moved out.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from actors.definitions.tree.process_groups import ProcessGroup, Replica
from actors.errors import ActorLostError, ClusterError
from actors.interfaces.transport import Link
from actors.messages.codec import encode
from actors.messages.protocol.base import Stop
from actors.rules.capacity.process_choice import least_used, spares_wanted
from runtime.cluster.processes.worker_process import HostedAgent, Process, WorkerProcess

WORN = 64
"""A process in which so many agents have lived is ended when it is empty, and with it what their code has left behind."""

ROOM_S = 0.5
"""Between two processes that are ended, idle ones first, for one that waits for what they have."""

SLOW_S = 5.0
"""A process that takes so long, although what it asks for was free, waits for it as well: somebody else has been faster."""

FILL_AFTER_S = 0.1
"""Starting a process takes as much of the machine as dozens of turns: who has just moved in answers first."""

IDLE = "it was idle and has been put to sleep"
LOST = "its process was lost"


class Pool:
    """See the head of this file.

    Args:
        start: starts a process; None asks for one in which any agent can live.
        is_free: whether what a home asks for is free now.
        most: processes with agents in them that there may be, without those that ask for something.
        spares: processes that are to stand ready.
        agents: how many agents there are that can live in them.
        idle_timeout_s: after which an idle agent moves out.
        stop_timeout_s: how long agents may take to stop in the end.
        fill_after_s: how long nothing is started ahead after somebody has moved in.
    """

    def __init__(
        self,
        start: Callable[[ProcessGroup | None], Awaitable[Process]],
        is_free: Callable[[ProcessGroup], Awaitable[bool]],
        *,
        most: int,
        spares: int,
        agents: int,
        idle_timeout_s: float,
        stop_timeout_s: float,
        fill_after_s: float = FILL_AFTER_S,
    ) -> None:
        self._start = start
        self._is_free = is_free
        self._most = most
        self._spares = spares
        self._agents = agents
        self._idle_timeout_s = idle_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._fill_after_s = fill_after_s
        self._hosts: list[WorkerProcess] = []
        self._tenants: dict[Replica, HostedAgent] = {}
        self._wanted: Counter[Replica] = Counter()
        self._moves: dict[Replica, asyncio.Task[None]] = {}
        self._filling: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._is_open = True
        self._counts = {"activations": 0, "passivations": 0, "shared": 0}

    # ------------------------------------------------------------------------------------------------- moving in
    async def link(self, place: Replica, home: ProcessGroup | None = None) -> HostedAgent:
        """A way to an agent, which moves in somewhere if it lives nowhere.

        Args:
            home: where it has to live; None: anywhere.

        Raises:
            ActorLostError: its process was lost as soon as it was started.
            PlacementError: no node has room for it.
            ClusterError: its definition cannot be loaded.
        """
        tenant = self._tenants.get(place)
        if tenant is not None:
            return tenant
        self._wanted[place] += 1
        try:
            while (tenant := self._tenants.get(place)) is None:
                await asyncio.shield(self._moves.get(place) or self._move(place, home))
            return tenant
        finally:
            self._wanted[place] -= 1
            if not self._wanted[place]:
                del self._wanted[place]

    def _move(self, place: Replica, home: ProcessGroup | None) -> asyncio.Task[None]:
        move = self._moves[place] = asyncio.create_task(self._moving(place, home))
        # Whoever waits for it may be cancelled, and then nobody asks how it ended.
        move.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return move

    async def _moving(self, place: Replica, home: ProcessGroup | None) -> None:
        try:
            await self._moves_in(place, home)
        finally:
            # Here and not in a callback, so that nobody ever finds a move that is over.
            del self._moves[place]
            self.fill()
            if self._is_open and (self._watching is None or self._watching.done()):
                self._watching = asyncio.create_task(self._watch())

    async def _moves_in(self, place: Replica, home: ProcessGroup | None) -> None:
        group = place if home is None else Replica(home.leader, place.replica)
        while True:
            before = set(self._hosts)
            host, leaving = self._host_for(group, home)
            host.arriving.append(group)
            seat, host.adopted = host.adopted, host.adopted + 1
            try:
                process = await self._process_of(host)
                host.pid = await process.adopt(seat, place.agent, leaving)
            except ActorLostError:
                self._lose(host)
                if host in before:
                    # It was lost while it stood ready: that is nothing that the agent has done.
                    continue
                raise
            except Exception:
                host.arriving.remove(group)
                self._settle(host)
                raise
            host.arriving.remove(group)
            if not host.is_over:
                break
        tenant = HostedAgent(place, group, host, seat, process.link(place.agent, seat))
        self._tenants[place] = host.tenants[place] = tenant
        self._counts["activations"] += 1

    def _host_for(self, group: Replica, home: ProcessGroup | None) -> tuple[WorkerProcess, Sequence[int]]:
        """Where an agent moves in, and the seats of those that move out for it."""
        shared = next((host for host in self._hosts if host.holds(group)), None)
        if shared is not None:
            return shared, ()
        if home is not None and home.placement.asks:
            return self._new(home), ()
        live = [host for host in self._hosts if not host.is_own and not host.is_empty]
        if len(live) < self._most:
            return next(iter(self._empty()), None) or self._new(None), ()
        loads = [host.load(self._wanted) for host in live]
        chosen = least_used(loads)
        host, load = live[chosen], loads[chosen]
        leaving = self._sleep(host.idle(self._wanted))
        if not load.in_use and host.adopted >= WORN:
            self._end(host)
            return next(iter(self._empty()), None) or self._new(None), ()
        if load.in_use:
            self._counts["shared"] += 1
        return host, leaving

    def _new(self, home: ProcessGroup | None) -> WorkerProcess:
        async def start() -> Process:
            if home is not None and not await self._is_free(home):
                host.waits = True
                self._make_room()
            return await self._start(home)

        host = WorkerProcess(asyncio.create_task(start()), is_own=home is not None)
        self._hosts.append(host)
        return host

    async def _process_of(self, host: WorkerProcess) -> Process:
        """The process of a host, when it is there. One that waits for resources gets those of others that are idle."""
        while host.is_own and not host.started.done():
            await asyncio.wait({host.started}, timeout=ROOM_S if host.waits else SLOW_S)
            if not host.started.done():
                self._make_room()
        # Others may be waiting for it as well.
        return await asyncio.shield(host.started)

    def _make_room(self) -> None:
        own = [host for host in self._hosts if host.is_own and host.tenants and not host.load(self._wanted).in_use]
        if own:
            host = own[least_used([host.load(self._wanted) for host in own])]
            self._sleep(host.idle(self._wanted))
            self._end(host)

    # ------------------------------------------------------------------------------------------------- standing ready
    def fill(self) -> None:
        """See that as many processes stand ready as are wanted, in the background."""
        if not self._is_open:
            return
        for host in self._empty()[self._spares_wanted() :]:
            self._end(host)
        if self._missing() > 0 and (self._filling is None or self._filling.done()):
            self._filling = asyncio.create_task(self._fill())

    async def _fill(self) -> None:
        """Start what is missing, one at a time: who is spoken to goes first."""
        while True:
            if self._moves:
                await asyncio.wait(list(self._moves.values()), timeout=ROOM_S)
            await asyncio.sleep(self._fill_after_s)
            if self._missing() <= 0:
                return
            host = self._new(None)
            try:
                host.pid = await (await self._process_of(host)).prepare()
            except ActorLostError:
                self._lose(host)
                return
            except ClusterError:
                # There is no room for it now. Somebody who needs it will be told.
                self._end(host)
                return
            host.is_ready = True

    def _missing(self) -> int:
        return self._spares_wanted() - len(self._empty())

    def _empty(self) -> list[WorkerProcess]:
        """Processes that stand ready, or will: those that do first."""
        return sorted((host for host in self._hosts if not host.is_own and host.is_empty), key=lambda host: not host.is_ready)

    def _spares_wanted(self) -> int:
        pooled = [host for host in self._hosts if not host.is_own and not host.is_empty]
        without = self._agents - sum(len(host.tenants) for host in pooled)
        return spares_wanted(self._spares, without=without, room=self._most - len(pooled))

    # ------------------------------------------------------------------------------------------------- moving out
    async def _watch(self) -> None:
        """Look for idle agents when the first can have been so for long enough."""
        while self._tenants:
            first_s = min(tenant.used_s for tenant in self._tenants.values()) + self._idle_timeout_s
            await asyncio.sleep(max(first_s - time.monotonic(), self._idle_timeout_s / 10))
            self.put_to_sleep()

    def put_to_sleep(self) -> None:
        """Have those move out that are idle for too long."""
        until_s = time.monotonic() - self._idle_timeout_s
        for host in list(self._hosts):
            seats = self._sleep(tenant for tenant in host.idle(self._wanted) if tenant.used_s <= until_s)
            if seats and (process := host.process()) is not None:
                process.drop(seats)
                self._settle(host)

    def _sleep(self, tenants: Iterable[HostedAgent]) -> list[int]:
        """Nothing more can be sent to them from now on. Returns their seats, which are to be told to their process."""
        seats = []
        for tenant in tenants:
            self._out(tenant, IDLE)
            self._counts["passivations"] += 1
            seats.append(tenant.seat)
        return seats

    def _out(self, tenant: HostedAgent, reason: str) -> None:
        tenant.over = reason
        del self._tenants[tenant.place]
        del tenant.host.tenants[tenant.place]

    def _settle(self, host: WorkerProcess) -> None:
        """Keep a process that has become empty as one that stands ready, if it is needed and good for it."""
        if host.is_empty and not host.is_over:
            host.is_ready = host.process() is not None
            if host.is_own or host.adopted >= WORN or not host.is_ready or self._missing() < 0:
                self._end(host)

    def _end(self, host: WorkerProcess) -> None:
        if host.is_over:
            return
        host.is_over = True
        self._hosts.remove(host)
        if host.is_own and not host.started.done():
            host.started.cancel()
        host.started.add_done_callback(lambda _: _killed(host))

    # ------------------------------------------------------------------------------------------------- losing
    def forget(self, link: Link) -> None:
        """The actor behind the link was found dead, or does not listen: its process goes, and with it all that live there."""
        for tenant in self._tenants.values():
            if link in (tenant, tenant.glance):
                self._lose(tenant.host)
                return

    def _lose(self, host: WorkerProcess) -> None:
        for tenant in list(host.tenants.values()):
            self._out(tenant, LOST)
        self._end(host)

    # ------------------------------------------------------------------------------------------------- looking
    def live(self) -> list[tuple[Replica, Link]]:
        """All that live now, and ways to them that do not count as use."""
        return [(tenant.place, tenant.glance) for tenant in self._tenants.values()]

    def counts(self) -> dict[str, int]:
        """Figures: processes with agents, processes that stand ready, and what has happened."""
        empty = self._empty()
        return {"hosts": len(self._hosts) - len(empty), "spares": sum(host.is_ready for host in empty), **self._counts}

    def spare_pids(self) -> list[int]:
        """The process ids of those in which nobody lives."""
        return [host.pid for host in self._hosts if not host.tenants and host.pid]

    # ------------------------------------------------------------------------------------------------- the end
    async def close(self) -> None:
        """Stop every agent, and end all processes."""
        self._is_open = False
        tasks = [task for task in (self._filling, self._watching, *self._moves.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(self._stop(tenant) for tenant in list(self._tenants.values())))
        hosts = list(self._hosts)
        for host in hosts:
            self._lose(host)
        # A process that is just being asked for can only be ended when it is there.
        await asyncio.gather(*(host.started for host in hosts), return_exceptions=True)

    async def _stop(self, tenant: HostedAgent) -> None:
        with suppress(ActorLostError, TimeoutError):
            async with asyncio.timeout(self._stop_timeout_s):
                await tenant.send(encode(Stop()))


def _killed(host: WorkerProcess) -> None:
    process = host.process()
    if process is not None:
        process.kill()
