"""The versions of the tree in a Runner: each turn runs by the one that it began with, as long as it goes on."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, replace

from actors.errors import ClusterError
from actors.interfaces.deployment_events import tell_event
from actors.interfaces.transport import AgentDirectory
from actors.messages import protocol as p
from actors.messages.operating.versions import VersionRecord
from actors.runner.dispatch.dispatch import Dispatch
from actors.runner.dispatch.events import RunnerEvents
from actors.runner.dispatch.invoker import Invoker
from actors.runner.dispatch.isolation import Isolation
from actors.runner.dispatch.plugin_hooks import PluginHooks
from actors.runner.dispatch.routing import Routing
from actors.runner.environment import RunnerEnvironment, RunnerTree


@dataclass(frozen=True)
class VersionParts:
    """What runs the turns of one version.

    Attributes:
        version: its name.
        directory: activates the actors of its agents.
        hooks: of its plugins.
        routing: applies the rules to its tree.
        invoker: runs its agents.
        dispatch: follows transfers between them.
    """

    version: str
    directory: AgentDirectory
    hooks: PluginHooks
    routing: Routing
    invoker: Invoker
    dispatch: Dispatch


class TurnVersions:
    """Gives the parts of each version, and keeps them while turns run by it or new turns get it.

    Args:
        environment: the tree with which the deployment was started, and where later ones are.
        events: leaves the events of failures.
        counts: the Runner's figures.
        isolation: says when runs may go on alone.

    Attributes:
        current: the version that new turns get: it decides what is done with a message before its turn is open.
        has_tree: False until `load` has asked for the tree, where it was not known.
        has_tasks: an agent of some version works on tasks with the user: turns of older ones may wait for words.
    """

    def __init__(self, environment: RunnerEnvironment, events: RunnerEvents, counts: Counter[str], isolation: Isolation) -> None:
        self._environment = environment
        self._events = events
        self._counts = counts
        self._isolation = isolation
        self._record = environment.versions
        self._base = self._parts(environment, environment.directory, Routing(environment.session, environment.topology))
        self._loaded = {environment.version: self._base}
        self._loading = asyncio.Lock()
        self._held: dict[str, int] = {}
        self._choose()

    def _choose(self) -> None:
        # Each turn asks several times, and the answer changes with an update only.
        self.current = self._loaded.get(self._record.current, self._base)
        self.has_tree = bool(self._base.routing.topology.nodes)
        self.has_tasks = self._base.routing.topology.has_tasks or self._record.has_tasks

    def find(self, version: str) -> VersionParts | None:
        """A version, if it is loaded. "" is the one with which the deployment was started."""
        return self._loaded.get(version) if version else self._base

    def of(self, version: str) -> VersionParts:
        """The version of a turn that runs here."""
        return self._loaded[version] if version else self._base

    async def load(self, version: str = "") -> VersionParts:
        """A version, loaded if need be. Raises ClusterError when it is not kept, or cannot be loaded."""
        if not self.has_tree:
            await self._base.routing.load()
            self._choose()
        if (found := self.find(version)) is not None:
            return found
        async with self._loading:
            found = self.find(version)
            if found is None:
                found = self._loaded[version] = await self._load(version)
                self._choose()
            return found

    async def load_version(self, message: p.LoadVersion) -> p.Ack:
        """Load a version that turns are to get. Raises ClusterError."""
        await self.load(message.version)
        return p.Ack()

    async def use_versions(self, message: p.UseVersions) -> p.Ack:
        """Take over which versions there are now, and give up what is needed no more. Raises ClusterError."""
        for version in message.record.given:
            await self.load(version)
        if message.record.number > self._record.number:
            _tell_change(self._record, message.record)
            self._record = message.record
            self._choose()
            self._give_up()
        return p.Ack()

    def hold(self, version: str) -> VersionParts:
        """The version of a turn that begins to run, and runs until `release`."""
        self._held[version] = self._held.get(version, 0) + 1
        return self.of(version)

    def release(self, version: str) -> None:
        """A turn that runs by the version has ended."""
        self._held[version] -= 1
        if not self._held[version]:
            del self._held[version]
            if self._record.number and version not in self._record.given:
                self._give_up()

    def _give_up(self) -> None:
        """Give up the processes of versions by which no turn runs, nor will; and those versions that are kept no more."""
        used = {*self._record.given, *self._held}
        if "" in self._held:
            used.add(self._environment.version)
        for version in [each for each in self._loaded if each not in used and each not in self._record.ids]:
            if self._loaded[version] is not self._base:
                del self._loaded[version]
        if self._environment.trees is not None:
            self._environment.trees.retain(used, self._loaded)

    async def _load(self, version: str) -> VersionParts:
        if self._environment.trees is None:
            raise ClusterError(f"version {version!r} of the tree is not known here")
        tree: RunnerTree = await self._environment.trees.tree(version)
        environment = replace(self._environment, plugins=tree.plugins, version=version)
        return self._parts(environment, tree.directory, Routing(environment.session, tree.topology))

    def _parts(self, environment: RunnerEnvironment, directory: AgentDirectory, routing: Routing) -> VersionParts:
        hooks = PluginHooks(environment)
        may_close = not hooks.has_end_hooks
        invoker = Invoker(
            environment.session, directory, routing, self._events, self._counts, self._isolation, may_close=may_close
        )
        dispatch = Dispatch(routing, invoker, self._events, self._counts)
        return VersionParts(environment.version, directory, hooks, routing, invoker, dispatch)


def _tell_change(before: VersionRecord, after: VersionRecord) -> None:
    """Tell of an update or a rollback as an event of the deployment."""
    if after.share is not None:
        part, text = after.share.part, "%g %% of the new sessions get version %s, the others stay with %s"
        tell_event("version changed", text, 100 * part, after.share.version, after.current, level=logging.INFO)
    elif before.share is not None and after.current == before.current:
        text = "new sessions get version %s again, and no longer %s"
        tell_event("version changed", text, after.current, before.share.version, level=logging.INFO)
    else:
        how = "again, as before" if after.current == before.previous else "in place of"
        tell_event("version changed", "new turns get version %s %s %s", after.current, how, before.current, level=logging.INFO)
