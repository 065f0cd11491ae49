"""The version of the tree by which a turn runs: here there is one. A feature that has several takes the place of this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from actors.actor import Handlers
from actors.definitions.tools.context import Actions
from actors.interfaces.transport import AgentDirectory
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.session import TurnKey
from actors.runner.dispatch import Dispatch
from actors.runner.environment import RunnerEnvironment
from actors.runner.invoker import Invoker, Isolation, RunnerEvents
from actors.runner.routing import Routing
from actors.runner.running_turn import RunningTurn


@dataclass(frozen=True)
class VersionParts:
    """What runs the turns of one version."""

    directory: AgentDirectory
    hooks: TurnHooks
    routing: Routing
    invoker: Invoker
    dispatch: Dispatch


MakeParts = Callable[[RunnerEnvironment, AgentDirectory, Routing], VersionParts]
"""Makes the parts of a version of the tree, whose actors the directory activates."""


def version_parts(
    events: RunnerEvents,
    counts: Counter[str],
    isolation: Isolation,
    make_hooks: MakeHooks,
    environment: RunnerEnvironment,
    directory: AgentDirectory,
    routing: Routing,
) -> VersionParts:
    """Make the parts of a version: with the first arguments given, a MakeParts."""
    hooks = make_hooks(environment)
    invoker = Invoker(environment.session, directory, routing, events, counts, isolation, may_close=not hooks.has_end_hooks)
    return VersionParts(directory, hooks, routing, invoker, Dispatch(routing, invoker, events, counts))


class TurnVersions:
    """The versions of the tree in a Runner.

    Args:
        environment: the tree with which the deployment was started.
        make_parts: see `version_parts`.

    Attributes:
        current: the version that new turns get: it decides what is done with a message before its turn is open.
    """

    def __init__(self, environment: RunnerEnvironment, make_parts: MakeParts) -> None:
        self._environment = environment
        self._make_parts = make_parts
        routing = Routing(environment.session, environment.topology)
        self._first = self.current = make_parts(environment, environment.directory, routing)

    def handlers(self) -> Handlers:
        """The messages of a feature that has several versions."""
        return {}

    @property
    def has_tree(self) -> bool:
        """False until `load` has asked for the tree, where it was not known."""
        return bool(self._first.routing.topology.nodes)

    @property
    def has_tasks(self) -> bool:
        """An agent of some version works on tasks with the user: turns of older ones may wait for words."""
        return self._first.routing.topology.has_tasks

    def find(self, version: str) -> VersionParts | None:
        """A version, if it is loaded. "" is the one with which the deployment was started."""
        return self._first

    def of(self, version: str) -> VersionParts:
        """The version of a turn that runs here."""
        return self._first

    async def load(self, version: str = "") -> VersionParts:
        """A version, loaded if need be. Raises ClusterError when it is not kept, or cannot be loaded."""
        if not self.has_tree:
            await self._first.routing.load()
        return self._first

    def hold(self, version: str) -> VersionParts:
        """The version of a turn that begins to run, and runs until `release`."""
        return self._first

    def release(self, version: str) -> None:
        """A turn that runs by the version has ended."""


MakeTurnVersions = Callable[[RunnerEnvironment, MakeParts], TurnVersions]
"""Makes the versions of a Runner."""


class TurnHooks:
    """What is done around the turns of one version of the tree; here nothing.

    Attributes:
        has_message_hooks: it wants to see users' messages, and which agent is to get them.
        has_begin_hooks: it does something when a turn begins.
        has_end_hooks: it does something when a turn has finished.
    """

    has_message_hooks = has_begin_hooks = has_end_hooks = False

    def __init__(self, environment: RunnerEnvironment) -> None:
        pass

    async def on_user_message(self, turn: TurnKey, agent: str, content: Content, message: p.StartTurn) -> tuple[Content, Actions]:
        """The message as it is to be, and actions that were taken. What it raises refuses the message."""
        return content, Actions()

    async def before_run(self, turn: RunningTurn) -> Event | None:
        """The event that the beginning of a turn leaves in the log, if any; one with content answers the message.

        Raises:
            PluginFailedError: the turn fails.
        """
        return None

    async def after_run(self, turn: RunningTurn) -> Event | None:
        """The event that the end of a turn leaves in the log, if any. Raises PluginFailedError like `before_run`."""
        return None

    async def run_failed(self, turn: RunningTurn, outcome: p.Failed) -> None:
        """Learn that a turn has failed."""


MakeHooks = Callable[[RunnerEnvironment], TurnHooks]
"""Makes the hooks of a version."""
