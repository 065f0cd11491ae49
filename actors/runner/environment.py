"""What a Runner works with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from actors.definitions.agents.callbacks import Plugin
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.telemetry import NO_TELEMETRY, Telemetry
from actors.interfaces.transport import Directory, HostLimit
from actors.messages import protocol as p
from actors.messages.config import DEFAULT_LIMITS, Budget, Limits
from actors.messages.session import Shard
from actors.messages.topology import Topology
from actors.refs import SessionRef
from actors.rules.queues import OF_SESSION_ACTOR


@dataclass(frozen=True)
class RunnerEnvironment:
    """The other actors, the stores and the settings of a Runner.

    Attributes:
        artifacts: stores the data in users' messages.
        plugins: the deployment's; the Runner calls their hooks around turns.
        limits: how large an event may be, and how much may wait.
        store_timeout_s: how long the artifact store may take for one artifact.
        host_limit: gives how many processes with agents there may be now; None without a limit.
        telemetry: learns of turns and runs.
        topology: the tree, where it is in the process already; None: the Session actor is asked for it.
        version: the name of the tree with which the deployment was started.
        is_restarted: the Runner is in the place of one that was lost; RecoverTurns comes.
        term: of a Runner with a standby: see AnnounceRunner.
        on_replaced: called when a standby has become the Runner in its place; None: it has no standby.
        daily_budget: for all turns of a day together, which each turn is given; None: there is none.
        turns_opened_at_once: of all that are asked for. The default is that of a Runner beside one Session actor.
        turns_of_many_opened_at_once: while more users wait than that. The default is enough for all processes to work at the same
            time, and is worked off well before a turn that is opened counts as one that waits for something else.
    """

    session: SessionRef
    directory: Directory
    artifacts: ArtifactStore
    plugins: Sequence[Plugin] = ()
    limits: Limits = DEFAULT_LIMITS
    store_timeout_s: float = 30.0
    host_limit: Callable[[], HostLimit] | None = None
    telemetry: Telemetry = NO_TELEMETRY
    topology: Topology | None = None
    version: str = ""
    is_restarted: bool = False
    term: int = 0
    on_replaced: Callable[[], None] | None = None
    daily_budget: Budget | None = None
    turns_opened_at_once: int = OF_SESSION_ACTOR
    turns_of_many_opened_at_once: int = 192


T = TypeVar("T")


class RunnerPlace:
    """The place of one Runner, which it takes over from a Runner that was lost.

    Args:
        runner_id: the Runner's, as Session actors know it.
        shard: the sessions whose turns it runs.
        term: see AnnounceRunner.
        on_replaced: called when a Runner with a later term has taken the place of this one.
        is_promoting: see below: requests may come before it has heard that it leads.

    Attributes:
        runner_id, shard: as given.
        term: grows when a standby becomes the Runner.
        on_announced: called when a Session actor has given this Runner its place, and dropped the turns of the one before.
        is_promoting: this Runner takes the place of one that was lost. A later term is of a Runner before it then, and was given
            by a clock that was ahead of this one's, or was set back since.
    """

    def __init__(
        self,
        runner_id: str,
        shard: Shard,
        term: int = 0,
        on_replaced: Callable[[], None] | None = None,
        *,
        is_promoting: bool = False,
    ) -> None:
        self.runner_id = runner_id
        self.shard = shard
        self.term = term
        self.is_promoting = is_promoting
        self._on_replaced = on_replaced
        self._has_term = asyncio.Event()
        self.on_announced: Callable[[SessionRef], None] = lambda session: None

    def promote(self, term: int) -> None:
        """Take the place of a Runner that was lost, in a term. May be called again: a Session actor may know of a later term."""
        self.term = max(term, self.term)
        self.is_promoting = True
        self._has_term.set()

    async def announce(self, session: SessionRef, asked: p.NotLeader) -> None:
        """Tell a Session actor, which takes another Runner for the living one, that it is this one."""
        if asked.term and not self.term and self._on_replaced is not None:
            # What stood by leads now, and is yet to hear in which term: turns may come before that.
            await self._has_term.wait()
        if asked.term > self.term and self.is_promoting:
            # Terms of one of its two processes stay even, those of the other odd.
            self.term += (asked.term - self.term + 2) & ~1
        elif asked.term > self.term and self._on_replaced is not None:
            self._on_replaced()
        message = p.AnnounceRunner(runner=self.runner_id, shard=self.shard, number=asked.number, term=self.term)
        await session.ask(message)
        self.on_announced(session)

    async def ask_as_leader(self, session: SessionRef, ask: Callable[[], Awaitable[T | p.NotLeader]]) -> T:
        """Ask a Session actor until it listens to this Runner, and return the reply. Raises what `ask` raises."""
        while isinstance(reply := await ask(), p.NotLeader):
            await self.announce(session, reply)
        return reply
