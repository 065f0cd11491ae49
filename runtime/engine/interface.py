"""The seam between the driver and what runs the actors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from actors.interfaces.clock import Clock
from actors.interfaces.stores import ArtifactStore
from actors.layers.flows.definitions import FlowPlan
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.versions import TreeVersion, VersionRecord
from actors.messages.protocol.statistics import ConnectionFigures
from actors.messages.session import SessionKey, TurnKey
from actors.refs import Ref, RunnerRef, SessionRef
from runtime.observability.logs.kept import DeploymentEvent, LogLine
from runtime.settings import Settings


class LoopClock(Clock, Protocol):
    """A clock by which a whole event loop goes."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop whose timers go by this clock."""
        ...

    def thaw(self) -> None:
        """Let the time of the running event loop go on by itself: its deployment is about to be stopped."""
        ...


class TreeKeeper(Protocol):
    """Keeps the versions of a deployment's tree where all its actors find them, whichever are lost."""

    async def record(self) -> VersionRecord:
        """The newest record of versions, as actors learn it that are started again. Raises ClusterError."""
        ...

    async def version(self, version: str) -> TreeVersion:
        """A version by its name. Raises ClusterError when it is not kept."""
        ...

    async def keep_tree(self, tree: AgentTree) -> None:
        """Keep a tree. No turn gets it yet.

        Raises:
            DefinitionError: it cannot be sent to the actors.
            ClusterError: it cannot be kept.
        """
        ...

    async def keep_record(self, record: VersionRecord) -> None:
        """Keep another record of versions, with the next number, and no other trees than those in it.

        Raises:
            UpdateConflictError: another program has kept a record of this number.
            ClusterError: it cannot be kept.
        """
        ...


class Engine(Protocol):
    """Runs the actors of one deployment. All methods but `prepare` and `release` are called from one event loop."""

    async def deployment_events(self) -> Sequence[DeploymentEvent]:
        """The events of the deployment that its processes keep, the oldest first."""
        ...

    async def log_lines(self, turn: TurnKey) -> Sequence[LogLine]:
        """List what agents have logged and printed in a turn, as far as the deployment keeps it, the oldest first."""
        ...

    @property
    def loop_clock(self) -> LoopClock | None:
        """The clock of a test, by which everything on the engine waits; None: that of the machine."""
        ...

    @property
    def session(self) -> SessionRef:
        """A client of the Session actor, once the engine is started."""
        ...

    @property
    def runner(self) -> RunnerRef:
        """A client of the Runner, once the engine is started."""
        ...

    @property
    def limiter(self) -> Ref | None:
        """A client of the actor that limits model calls, once the engine is started; None where no model has limits."""
        ...

    @property
    def address(self) -> str | None:
        """Where the Ray is that is used, as `host:port`; None without one."""
        ...

    @property
    def control_service_away_s(self) -> float:
        """For how long this program has not reached the control service of Ray; 0: it does, or there is no Ray."""
        ...

    @property
    def artifact_store(self) -> str | ArtifactStore | None:
        """The artifact store or its URL; None before a deployment is joined, which alone knows it."""
        ...

    @property
    def auto_create_session(self) -> bool:
        """Whether turns create a missing session, unless a turn says otherwise."""
        ...

    @property
    def lasts(self) -> bool:
        """True when the deployment goes on after this driver has left it."""
        ...

    @property
    def has_ended(self) -> bool:
        """True when the deployment that was joined is known to have ended: `rejoin` comes before the next request."""
        ...

    def prepare(self) -> None:
        """Do what must be done in the thread that starts the deployment, such as connecting to Ray. Called before `start`."""
        ...

    def release(self) -> None:
        """Give up what `prepare` has opened. Called once the event loop has ended, so that nothing on it uses that any more."""
        ...

    async def start(self) -> None:
        """Start the Session actor and the Runner, or find those of the deployment to join.

        Raises:
            DeploymentExistsError: the app runs already.
            DeploymentNotFoundError: the app to join does not run.
            ClusterError: the actors do not answer.
            StoreError: a store cannot be used.
        """
        ...

    async def rejoin(self) -> None:
        """Join the deployment that was started in the place of one that has ended.

        Raises:
            DeploymentNotFoundError: there is none yet.
            ClusterError: its actors do not answer.
        """
        ...

    async def has_successor(self, error: Exception) -> bool:
        """Wait for the deployment that an upgrade starts in place of the one that was joined, and join it.

        Args:
            error: what a request has raised whose actor is gone. Only UpgradingError says that there will be another deployment.

        Returns:
            True when it was joined: the request may be sent again. False when none is to be expected.
        """
        ...

    def connections(self) -> ConnectionFigures | None:
        """The figures of messages to and from this process; None where all actors are in it."""
        ...

    async def mcp_servers(self) -> Mapping[str, Ref]:
        """Clients of the actors of MCP servers that have started, by the names of the servers."""
        ...

    @property
    def settings(self) -> Settings | None:
        """The deployment's settings; None before a deployment is joined, which alone knows them."""
        ...

    @property
    def trees(self) -> TreeKeeper:
        """The versions of the deployment's tree, once the engine is started."""
        ...

    async def leave(self) -> None:
        """Disconnect from a deployment that goes on."""
        ...

    async def define(self, name: str, plan: FlowPlan, key: SessionKey) -> None:
        """Make the plan of a flow known to all agents that serve a session, whichever actors are lost later.

        Raises:
            DefinitionError: it cannot be sent to them.
            ActorLostError: the actors that would keep it are gone.
        """
        ...

    async def stop(self, *, leave_turns: bool = False) -> None:
        """Stop all actors of the deployment and wait until their processes have ended.

        Args:
            leave_turns: turns that run are not cancelled, but stay open in the store.
        """
        ...
