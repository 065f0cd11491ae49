"""What a pool knows of its processes, and of the agents that live in them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Sequence
from typing import Protocol

from actors.definitions.tree.process_groups import Replica
from actors.errors import ActorLostError
from actors.interfaces.transport import Link
from actors.rules.capacity.process_choice import Load

CANCELLED_S = 2.0
"""An agent counts as in use for so long after somebody has ceased to wait for its answer."""


class Process(Protocol):
    """A process in which agents can live."""

    async def prepare(self) -> int:
        """Load what agents will need. Returns the process id. Raises ActorLostError."""
        ...

    async def adopt(self, seat: int, agent: str, leaving: Sequence[int]) -> int:
        """Have an agent live in it, when those that leave are gone. Returns the process id.

        Args:
            seat: the number by which messages reach it; each is used once, the first is 0.

        Raises:
            ActorLostError: the process is gone, or does not listen.
            ClusterError: the agent's definition cannot be loaded there.
        """
        ...

    def drop(self, seats: Sequence[int]) -> None:
        """Have agents leave, without waiting for it."""
        ...

    def link(self, agent: str, seat: int) -> Link:
        """A way to an agent that lives in it."""
        ...

    def kill(self) -> None:
        """End it as it is."""
        ...


class HostedAgent:
    """Implements `Link`: the way to an agent that lives in a process, and how much it is used.

    The reply to an Invoke is the end of a run, so an agent is in use for as long as a message to it is not answered.

    Attributes:
        seat: its number in its process.
        glance: a way to the same actor that does not count as use.
        in_use: messages under way.
        used_s: when the last one was answered, or when it moved in.
        over: why it does not live there any more; "" as long as it does.
    """

    def __init__(self, place: Replica, group: Replica, host: WorkerProcess, seat: int, link: Link) -> None:
        self.place = place
        self.group = group
        self.host = host
        self.seat = seat
        self.glance = link
        self.in_use = 0
        self.used_s = time.monotonic()
        self.over = ""

    async def send(self, raw: bytes, *, once: bool = False) -> bytes:
        """Deliver a message and return the reply. Raises ActorLostError."""
        if self.over:
            raise ActorLostError(f"agent {self.place.agent!r}", self.over)
        self.in_use += 1
        try:
            reply = await self.glance.send(raw, once=once)
        except asyncio.CancelledError:
            # What it was asked for goes on there. It will be told to stop, or is found not to listen.
            asyncio.get_running_loop().call_later(CANCELLED_S, self._answered)
            raise
        except BaseException:
            self._answered()
            raise
        self._answered()
        return reply

    def _answered(self) -> None:
        self.in_use -= 1
        self.used_s = time.monotonic()


class WorkerProcess:
    """A process, and who lives in it. The process may still be being started.

    Attributes:
        started: the process, once it is there.
        is_own: it was started for one agent, and those that live with it, since that needs something that others have not.
        waits: what it needs was not free.
        tenants: who lives in it.
        arriving: the groups of those who are moving in. A group is an agent with those that live in its process.
        adopted: how many have moved in since it was started.
        is_ready: it was prepared.
        is_over: it is lost, or was ended.
        pid: its process id; 0 until it has told.
    """

    def __init__(self, started: asyncio.Task[Process], *, is_own: bool) -> None:
        self.started = started
        self.is_own = is_own
        self.waits = False
        self.tenants: dict[Replica, HostedAgent] = {}
        self.arriving: list[Replica] = []
        self.adopted = 0
        self.is_ready = False
        self.is_over = False
        self.pid = 0

    @property
    def is_empty(self) -> bool:
        """Nobody lives in it, and nobody is moving in."""
        return not self.tenants and not self.arriving

    def holds(self, group: Replica) -> bool:
        """True when one of the group lives in it, or is moving in."""
        return group in self.arriving or any(tenant.group == group for tenant in self.tenants.values())

    def idle(self, wanted: Container[Replica]) -> list[HostedAgent]:
        """Who is not in use, and not about to be."""
        return [tenant for tenant in self.tenants.values() if not tenant.in_use and tenant.place not in wanted]

    def load(self, wanted: Container[Replica]) -> Load:
        """How it is used."""
        in_use = len(self.arriving) + len(self.tenants) - len(self.idle(wanted))
        return Load(in_use, max((tenant.used_s for tenant in self.tenants.values()), default=0.0))

    def process(self) -> Process | None:
        """The process, if it has been started."""
        has_started = self.started.done() and not self.started.cancelled() and self.started.exception() is None
        return self.started.result() if has_started else None
