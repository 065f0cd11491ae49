"""What a Runner works with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.definitions.agents.plugin import Plugin
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.telemetry import NO_TELEMETRY, Telemetry
from actors.interfaces.transport import Directory
from actors.messages.config import Budget
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.messages.topology import Topology
from actors.refs.session import SessionRef
from actors.rules.capacity.process_choice import HostLimit


@dataclass(frozen=True)
class RunnerEnvironment:
    """The other actors, the stores and the settings of a Runner.

    Attributes:
        session: the Session actor.
        directory: activates agents' actors.
        artifacts: stores the data in users' messages.
        plugins: the deployment's; the Runner calls their hooks around turns.
        limits: how large an event may be, and how much may wait.
        store_timeout_s: how long the artifact store may take for one artifact.
        host_limit: how many processes with agents there may be; None without a limit.
        telemetry: learns of turns and runs.
        topology: the tree, where it is in the process already; None: the Session actor is asked for it.
        defined_s: since when the agents are as they are, in seconds since the epoch; 0: always.
        is_restarted: the Runner is in the place of one that was lost; RecoverTurns comes.
        daily_budget: for all turns of a day together, which each turn is given; None: there is none.
        turns_opened_at_once: of all that are asked for. The default is enough for the store to commit many together.
    """

    session: SessionRef
    directory: Directory
    artifacts: ArtifactStore
    plugins: Sequence[Plugin] = ()
    limits: Limits = DEFAULT_LIMITS
    store_timeout_s: float = 30.0
    host_limit: HostLimit | None = None
    telemetry: Telemetry = NO_TELEMETRY
    topology: Topology | None = None
    defined_s: float = 0.0
    is_restarted: bool = False
    daily_budget: Budget | None = None
    turns_opened_at_once: int = 64
