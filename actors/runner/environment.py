"""What a Runner works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.definitions.agents.plugin import Plugin
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.telemetry import NO_TELEMETRY, Telemetry
from actors.interfaces.transport import Directory, HostLimit
from actors.messages.config import Budget
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.messages.topology import Topology
from actors.refs import SessionRef
from actors.rules.capacity.opening_window import OF_SESSION_ACTOR


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
