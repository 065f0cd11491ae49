"""The versions of the tree by which turns run: the one that the deployment began with, and those that a feature loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from actors.definitions.agents.callbacks import Plugin
from actors.definitions.tools.context import Actions
from actors.errors import ClusterError
from actors.interfaces.transport import AgentDirectory
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.session import TurnKey
from actors.messages.topology import Topology
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


class TurnVersions:
    """The versions of the tree in a Runner: what runs the turns of each. At first there is the one of the deployment's start.

    Args:
        environment: the tree with which the deployment was started.

    Attributes:
        first: that one.
        current: the version that new turns get: it decides what is done with a message before its turn is open.
        loaded: all versions by their names; the first one also as "".
        held: by the names of versions, how many turns run by each.
        others_have_tasks: an agent of a version, which may not be loaded, works on tasks with users.
        load_other: loads a version that is not there.
        on_unused: called when no turn runs by a version any more.
    """

    others_have_tasks = False

    def __init__(
        self,
        environment: RunnerEnvironment,
        events: RunnerEvents,
        counts: Counter[str],
        isolation: Isolation,
        make_hooks: MakeHooks,
    ) -> None:
        self._environment = environment
        self._events = events
        self._counts = counts
        self._isolation = isolation
        self._make_hooks = make_hooks
        self.first = self.current = self.made(environment.directory, environment.topology, environment.plugins)
        self.loaded = {"": self.first, environment.version: self.first}
        self.held: Counter[str] = Counter()
        self.load_other: Callable[[str], Awaitable[VersionParts]] = _unknown
        self.on_unused: Callable[[str], None] | None = None

    def made(self, directory: AgentDirectory, topology: Topology | None, plugins: Sequence[Plugin]) -> VersionParts:
        """The parts of a version of the tree, whose actors the directory activates."""
        environment = replace(self._environment, plugins=plugins)
        session, events, counts = environment.session, self._events, self._counts
        hooks, routing = self._make_hooks(environment), Routing(session, topology)
        may_close = not hooks.has_end_hooks
        invoker = Invoker(session, directory, routing, events, counts, self._isolation, may_close=may_close)
        return VersionParts(directory, hooks, routing, invoker, Dispatch(routing, invoker, events, counts))

    @property
    def has_tree(self) -> bool:
        """False until `load` has asked for the tree, where it was not known."""
        return bool(self.first.routing.topology.nodes)

    @property
    def has_tasks(self) -> bool:
        """An agent of some version works on tasks with the user: turns of older ones may wait for words."""
        return self.others_have_tasks or self.first.routing.topology.has_tasks

    async def load(self, version: str = "") -> VersionParts:
        """A version, loaded if need be. Raises ClusterError when it is not kept, or cannot be loaded."""
        if not self.has_tree:
            await self.first.routing.load()
        return self.loaded.get(version) or await self.load_other(version)

    def hold(self, version: str) -> VersionParts:
        """The version of a turn that begins to run, and runs until `release`."""
        self.held[version] += 1
        return self.loaded[version]

    def release(self, version: str) -> None:
        """A turn that runs by the version has ended."""
        self.held[version] -= 1
        if not self.held[version]:
            del self.held[version]
            if self.on_unused is not None:
                self.on_unused(version)


async def _unknown(version: str) -> VersionParts:
    raise ClusterError(f"version {version!r} of the tree is not known here")


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
