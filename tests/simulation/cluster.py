"""A cluster in one event loop: processes, the messages between them, and a directory that starts agents' processes.

It stands in for Ray and for connections, below `delivered`, which is the real one: a message to a process that is gone fails as
Ray lets it fail, and is sent again, or not, as on a cluster.
"""

from __future__ import annotations

import asyncio
import math
import random
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError

from actors.actor import Actor
from actors.interfaces.transport import EARLY_REPLY, EarlyReply, Link
from actors.messages.codec import encode
from actors.messages.protocol.base import ErrorReply
from actors.messages.session import SessionKey
from runtime.cluster.transport.link import delivered
from tests.simulation.faults import CALM, Network
from tests.simulation.virtual_loop import SimProcess, VirtualLoop, outside
from tests.support.ray_errors import preempted

RESTART_TIMEOUT_S = 60.0
DETECTED_S = 0.02
"""The longest time until a sender notices that the receiver's process is gone."""

LOST = 0.5
"""Of replies on their way, how many get lost with the process that sent them: a connection drops what was not read of it."""


class _Tag(msgspec.Struct):
    type: str


_tags = msgspec.msgpack.Decoder(_Tag)


class Sent(NamedTuple):
    """A message on its way.

    Attributes:
        kind: the name of its class.
        nth: counts the messages of its class, from 1.
        sender: None: the simulation itself.
        receiver: the process that was alive when it was sent; None: there was none.
    """

    kind: str
    nth: int
    sender: SimProcess | None
    receiver: SimProcess | None
    raw: bytes

    @property
    def who(self) -> str:
        """Sender and receiver."""
        names = (each.name if each is not None else "-" for each in (self.sender, self.receiver))
        return " -> ".join(names)


def agent_of(run: str) -> str:
    """The agent of a run, by the name that the Runner and the Session actor have for that."""
    return run.partition(" ")[0].rpartition("/")[2]


def _has_resumed(raw: bytes) -> bool:
    """True of the reply with which a Runner gets a turn to go on with. An error of the store may come after that is counted."""
    kind = _tags.decode(raw).type
    failed = kind == "ErrorReply" and msgspec.msgpack.decode(raw, type=ErrorReply).error.startswith("Store")
    return failed or kind == "TurnResumed"


class Trace:
    """Everything that happened, in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, str, Sent | None, bytes]] = []

    def add(self, now_s: float, what: str, sent: Sent | None = None, raw: bytes = b"") -> None:
        """Add one step."""
        self.entries.append((now_s, what, sent, raw))

    def digest(self) -> int:
        """A number that differs when anything differs."""
        found = 0
        for now_s, what, sent, raw in self.entries:
            text = f"{now_s:.9f} {what} {sent.kind} {sent.nth} {sent.who}" if sent is not None else f"{now_s:.9f} {what}"
            found = zlib.crc32(raw, zlib.crc32(text.encode(), found))
        return found


class HostProcess(SimProcess):
    """A process with actors in it.

    Attributes:
        actors: by the names of agents; "" in a process that has only one.
        serving: requests that it has not replied to: the senders' futures.
        replying: those whose reply is on its way.
        can_restart: another process takes its place when it is lost.
        is_forgotten: the Runner has asked for its end, which takes a moment.
        runner: the process of the Runner that has started it.
        directory: of a Runner's process.
    """

    def __init__(self, name: str, *, can_restart: bool = False) -> None:
        super().__init__(name)
        self.actors: dict[str, Actor] = {}
        self.serving: dict[asyncio.Future[bytes], Sent] = {}
        self.replying: dict[asyncio.Future[bytes], Sent] = {}
        self.can_restart = can_restart
        self.is_forgotten = False
        self.runner: HostProcess | None = None
        self.directory: SimDirectory | None = None

    @property
    def is_in_use(self) -> bool:
        """It runs, and the Runner that has started it has not given it up, and is not lost."""
        return not (self.is_held or self.is_forgotten or self.runner is None or self.runner.is_dead)

    async def receive(self, raw: bytes, slot: str, early: EarlyReply | None) -> bytes:
        """Have an actor handle a message."""
        EARLY_REPLY.set(early)
        if slot not in self.actors:
            return encode(ErrorReply(error="ActorLostError", args=["the agent", "it does not live there any more"]))
        return await self.actors[slot].receive(raw)


class Handle:
    """Stands in for Ray's handle of an actor, as one process has it: `handle.receive.remote(raw)` sends a message.

    Args:
        find: the process of the actor, as it is now; None while there is none.
        can_restart: see HostProcess.
    """

    def __init__(
        self,
        wires: Wires,
        sender: SimProcess | None,
        find: Callable[[], HostProcess | None],
        *,
        can_restart: bool,
        slot: str = "",
    ) -> None:
        self.receive = self
        self._wires = wires
        self._sender = sender
        self._find = find
        self._can_restart = can_restart
        self._slot = slot

    def remote(self, raw: bytes, early: EarlyReply | None = None) -> asyncio.Future[bytes]:
        return self._wires.send(self._sender, self._find(), raw, self._slot, can_restart=self._can_restart, early=early)

    def link(self, name: str) -> SimLink:
        """A link over this handle."""
        return SimLink(self, name, RESTART_TIMEOUT_S if self._can_restart else 0.0)


class SimLink:
    """Implements `Link`: what the real links do about losses, over a handle that brings early replies as connections do."""

    def __init__(self, handle: Handle, name: str, restart_timeout_s: float) -> None:
        self._handle = handle
        self._name = name
        self._restart_timeout_s = restart_timeout_s

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        return await delivered(lambda: self._handle.remote(raw, early), self._name, self._restart_timeout_s, once=once)


class Wires:
    """Carries messages between processes. Those of one sender to one receiver keep their order.

    Args:
        network: how long they take.
        on_sent, on_handled: called at each message, and with its reply; return for how long it is delayed, and whether its reply
            arrives. `on_lost`: called with each message whose reply does not arrive; returns
            for how long its sender does not notice that.
    """

    def __init__(self, loop: VirtualLoop, trace: Trace, network: Network) -> None:
        self._loop = loop
        self._trace = trace
        self._network = network
        self._random = random.Random(network.seed)
        self._cuts = random.Random(f"cuts {network.seed}")
        self._notices = random.Random(f"notices {network.seed}")
        self._counts: Counter[str] = Counter()
        self._arrival_s: dict[tuple[str, str], float] = {}
        self._early_s: dict[asyncio.Future[bytes], float] = {}
        self._asked_for: set[int] = set()
        self._opened: dict[str, int] = {}
        self.on_sent: Callable[[Sent], float] = lambda sent: 0.0
        self.on_handled: Callable[[Sent, bytes], bool] = lambda sent, raw: True
        self.on_lost: Callable[[Sent], float] = lambda sent: 0.0

    @property
    def counts(self) -> Mapping[str, int]:
        """How many messages of each class were sent."""
        return self._counts

    def takes_s(self) -> float:
        """How long the next message takes."""
        network, chance = self._network, self._random
        if network == CALM:
            return network.usual_s
        if network.slow and chance.randrange(network.slow) == 0:
            return chance.uniform(0, network.slow_s)
        return chance.uniform(0, network.usual_s)

    def send(
        self,
        sender: SimProcess | None,
        receiver: HostProcess | None,
        raw: bytes,
        slot: str,
        *,
        can_restart: bool,
        early: EarlyReply | None = None,
    ) -> asyncio.Future[bytes]:
        """Send a message. The future has the reply, or Ray's error. `early` is called before, in the sender's process."""
        if self._loop.is_ending:
            ended: asyncio.Future[bytes] = self._loop.create_future()
            ended.cancel()
            return ended
        kind = _tags.decode(raw).type
        self._counts[kind] += 1
        sent = Sent(kind, self._counts[kind], sender, receiver, raw)
        replied: asyncio.Future[bytes] = self._loop.create_future()
        self._trace.add(self._loop.time(), "sent", sent, raw)
        if kind == "BeginAlone":
            message = msgspec.msgpack.decode(raw)
            self._loop.history.go_alone(message["turn"][1], agent_of(message["run"]))
        elif kind == "OpenTurn":
            self._opened.setdefault(msgspec.msgpack.decode(raw)["invocation_id"], sent.nth)
        later_s = outside(self.on_sent, sent)
        if receiver is None or receiver.is_dead:
            self._later(self._random.uniform(0, DETECTED_S), self._fail, replied, sent, can_restart)
            return replied
        pair = (sender.name if sender is not None else "", receiver.name)
        # Later than the one before: the loop may run timers of the same moment in another order.
        arrival_s = max(math.nextafter(self._arrival_s.get(pair, 0.0), math.inf), self._loop.time() + self.takes_s() + later_s)
        self._arrival_s[pair] = arrival_s
        receiver.serving[replied] = sent
        outside(self._loop.call_at, arrival_s, self._arrive, replied, sent, receiver, slot, early)
        return replied

    def _later(self, seconds: float, function: Callable[..., Any], *args: Any) -> None:
        outside(self._loop.call_later, seconds, function, *args)

    def _arrive(
        self, replied: asyncio.Future[bytes], sent: Sent, receiver: HostProcess, slot: str, early: EarlyReply | None
    ) -> None:
        if receiver.is_dead:
            return
        self._trace.add(self._loop.time(), "arrived", sent)
        if sent.kind == "RunChild":
            self._asked_for.add(sent.nth)
        take = partial(self._replied_early, replied, sent, early) if early is not None and self._network.brings_early else None
        work = receiver.spawn(receiver.receive(sent.raw, slot, take))
        outside(work.add_done_callback, lambda done: outside(self._handled, replied, sent, receiver, done))

    def _replied_early(self, replied: asyncio.Future[bytes], sent: Sent, early: EarlyReply, raw: bytes) -> None:
        self._trace.add(self._loop.time(), "replied early", sent, raw)
        arrival_s = self._early_s[replied] = self._loop.time() + self.takes_s()
        outside(self._loop.call_at, arrival_s, self._take_early, replied, sent, early, raw)

    def _take_early(self, replied: asyncio.Future[bytes], sent: Sent, early: EarlyReply, raw: bytes) -> None:
        self._early_s.pop(replied, None)
        if sent.sender is not None and not replied.done():
            sent.sender.run(self._loop.call_soon, early, raw)

    def _handled(self, replied: asyncio.Future[bytes], sent: Sent, receiver: HostProcess, work: asyncio.Task[bytes]) -> None:
        if receiver.is_dead or work.cancelled() or replied not in receiver.serving:
            return
        raw = work.result()
        self._trace.add(self._loop.time(), "handled", sent, raw)
        if _has_resumed(raw):
            self._note_resumed(sent)
        arrives = self.on_handled(sent, raw)
        if receiver.serving.pop(replied, None) is None:
            return
        if arrives:
            # After the reply before it: both come by one connection.
            reply_s = max(self._loop.time() + self.takes_s(), self._early_s.get(replied, 0.0))
            receiver.replying[replied] = sent
            outside(self._loop.call_at, reply_s, self._reply, replied, receiver, raw)
        else:
            self._trace.add(self._loop.time(), "reply lost", sent)
            noticed_s = self._random.uniform(0, DETECTED_S) + self.on_lost(sent)
            self._later(noticed_s, self._fail, replied, sent, receiver.can_restart)

    def _reply(self, replied: asyncio.Future[bytes], receiver: HostProcess, raw: bytes) -> None:
        if receiver.replying.pop(replied, None) is not None and not replied.done():
            replied.set_result(raw)

    def _fail(self, replied: asyncio.Future[bytes], sent: Sent, can_restart: bool) -> None:
        self._trace.add(self._loop.time(), "failed", sent)
        if sent.kind == "Invoke" and isinstance(sent.receiver, HostProcess):
            self._note_loss(sent)
        if not replied.done():
            replied.set_exception(self._absence() if can_restart else ActorDiedError())

    def _note_resumed(self, sent: Sent) -> None:
        """A Runner has got a turn to go on with, or may have, as the Session actor was lost meanwhile."""
        if sent.kind in ("OpenTurn", "ResumeTurn", "RetryTurn"):
            message = msgspec.msgpack.decode(sent.raw)
            turn, runner = message["invocation_id"], message.get("runner", "")
            if runner and (sent.kind != "OpenTurn" or self._opened[turn] != sent.nth):
                self._loop.history.resume(turn, runner)

    def _note_loss(self, sent: Sent) -> None:
        runner, message = sent.sender, msgspec.msgpack.decode(sent.raw)
        asked = [each for each in runner.serving.values() if each.kind == "RunChild"] if isinstance(runner, HostProcess) else []
        self._loop.history.lose_run(
            message["turn"][1],
            message["agent"],
            with_runner=runner is None or runner.is_dead,
            waits=any(
                each.nth in self._asked_for and msgspec.msgpack.decode(each.raw)["turn"] == message["turn"] for each in asked
            ),
        )

    def _absence(self) -> RayActorError:
        """What Ray says of an actor that it starts again: that depends on whether the node was preempted."""
        return self._notices.choice((ActorUnavailableError("away", None), preempted()))

    def cut(self, sent: Sent) -> None:
        """Break the connection by which a message was sent, if there is no reply yet: the receiver goes on with it."""
        receiver = sent.receiver
        if isinstance(receiver, HostProcess):
            for replied in [each for each, of in (receiver.serving | receiver.replying).items() if of is sent]:
                self._fail(replied, sent, receiver.can_restart)

    def died(self, process: HostProcess) -> None:
        """A process is gone: fail what it was asked and has not replied to. Of the replies on their way some get lost with it."""
        serving, process.serving = process.serving, {}
        for sent in serving.values():
            self._note_resumed(sent)
        lost = {replied: sent for replied, sent in process.replying.items() if self._cuts.random() < LOST}
        for replied, sent in lost.items():
            del process.replying[replied]
            self._trace.add(self._loop.time(), "reply lost", sent)
        for replied, sent in (serving | lost).items():
            self._later(self._random.uniform(0, DETECTED_S), self._fail, replied, sent, process.can_restart)


class SimDirectory:
    """Implements `Directory`: starts agents' processes for one Runner.

    Args:
        start: starts a process for an agent, or finds the one that it shares with others; takes its time. With True the process
            is for this agent alone.
        kill: ends a process.
        wires: carries messages.
        runner: the Runner's process.
    """

    def __init__(
        self,
        start: Callable[[str, bool], Any],
        kill: Callable[[HostProcess], None],
        wires: Wires,
        runner: HostProcess,
    ) -> None:
        self.obstacles: Mapping[str, tuple[str, str]] = {}
        self._start = start
        self._kill = kill
        self._wires = wires
        self._runner = runner
        self.links: dict[str, tuple[SimLink, HostProcess]] = {}
        self._starting: dict[str, asyncio.Future[None]] = {}
        self._apart: list[tuple[SimLink, HostProcess]] = []

    async def link(self, agent: str, key: SessionKey, *, alone: bool = False) -> Link:
        if alone:
            found = self._link_to(agent, await self._start(agent, True))
            self._apart.append(found)
            return found[0]
        while agent not in self.links:
            if agent in self._starting:
                await asyncio.shield(self._starting[agent])
                continue
            self._starting[agent] = asyncio.get_running_loop().create_future()
            try:
                self.links[agent] = self._link_to(agent, await self._start(agent, False))
            finally:
                self._starting.pop(agent).set_result(None)
        return self.links[agent][0]

    def _link_to(self, agent: str, process: HostProcess) -> tuple[SimLink, HostProcess]:
        handle = Handle(self._wires, self._runner, lambda: process, can_restart=False, slot=agent)
        return handle.link(agent), process

    def drop_link(self, agent: str, link: Link) -> None:
        apart = [each for each in self._apart if each[0] is link]
        self._apart = [each for each in self._apart if each[0] is not link]
        if agent in self.links and self.links[agent][0] is link:
            apart.append(self.links.pop(agent))
        for _, process in apart:
            process.is_forgotten = True
            self._kill(process)

    def live(self) -> Sequence[tuple[str, Link]]:
        return [(agent, link) for agent, (link, _) in self.links.items()]

    def processes(self) -> list[HostProcess]:
        """The processes of its agents, each once."""
        return list({process.name: process for _, process in (*self.links.values(), *self._apart)}.values())

    def counts(self) -> Mapping[str, int]:
        return {}

    def losses(self) -> Mapping[str, int]:
        return {}

    def activations(self) -> Mapping[str, int]:
        return {}

    def spare_pids(self) -> Sequence[int]:
        return ()

    async def close(self) -> None:
        for process in self.processes():
            self._kill(process)
