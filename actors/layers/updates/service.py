"""The versions of the tree: a Session actor decides which one a turn begins with, and a Runner runs each turn by its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from actors.actor import Handlers
from actors.interfaces.telemetry import tell_event
from actors.layers.stores.parts import store_of
from actors.layers.updates.messages import GetVersions, LoadVersion, UseVersions, VersionsReply
from actors.layers.updates.rules import version_for
from actors.layers.updates.versions import SessionTrees, TreeSource, VersionRecord
from actors.messages import protocol as p
from actors.messages.topology import Topology
from actors.runner.service import RunnerParts, RunnerService
from actors.runner.versions import VersionParts
from actors.session.service import SessionParts, SessionService


class SessionUpdates(SessionService):
    """Answers GetVersions and UseVersions. A version is not given to turns before its parent map is here."""

    def __init__(self, parts: SessionParts, trees: SessionTrees) -> None:
        self._versions = parts.versions
        self._access = parts.access
        self._source = trees.source
        self._use(trees.record, {version.id: version.topology for version in trees.kept} or parts.versions.topologies)

    def _use(self, record: VersionRecord, topologies: Mapping[str, Topology]) -> None:
        self._record, versions = record, self._versions
        versions.current = record.current if record.current in topologies else versions.first
        versions.topologies = topologies
        is_shared = record.share is not None
        versions.choose = (lambda log: version_for(record, log.key, log.created_s)) if is_shared else None

    def handlers(self) -> Handlers:
        """Its messages."""
        return {GetVersions: self.get_versions, UseVersions: self.use_versions}

    async def get_versions(self, message: GetVersions) -> VersionsReply:
        """The versions in use: of a store that does not tell, all that are kept. Raises StoreError."""
        # Turns that have just begun are on their way to the disk.
        await self._access.commits.flush()
        stored = await self._access.read(store_of(self._access).open_versions, message.app)
        return VersionsReply(versions=tuple(stored) if stored is not None else self._record.ids)

    async def use_versions(self, message: UseVersions) -> p.Ack:
        """Take over which versions there are now. Raises ClusterError when one cannot be read: then all stays as it was."""
        record = message.record
        found = dict(self._versions.topologies)
        for version in record.ids:
            if version not in found and self._source is not None:
                found[version] = (await self._source.version(version)).topology
        if record.number > self._record.number:
            self._use(record, {version: found[version] for version in record.ids if version in found})
        return p.Ack()


class RunnerUpdates(RunnerService):
    """Loads versions, and keeps each while turns run by it or new turns get it.

    Args:
        record: which versions the deployment has when the Runner is started.
        trees: where these are kept; None: there are none.
    """

    def __init__(self, parts: RunnerParts, record: VersionRecord, trees: TreeSource | None) -> None:
        self._versions = parts.versions
        self._trees = trees
        self._loading = asyncio.Lock()
        self._use(record)
        if trees is not None:
            parts.versions.load_other = partial(self._load, trees)

    def _use(self, record: VersionRecord) -> None:
        self._record, versions = record, self._versions
        versions.others_have_tasks = record.has_tasks
        versions.current = versions.loaded.get(record.current, versions.first)
        if record.number:
            # Until there was an update all stay.
            versions.on_unused = self._unused

    def handlers(self) -> Handlers:
        """Its messages."""
        return {LoadVersion: self.load_version, UseVersions: self.use_versions}

    async def load_version(self, message: LoadVersion) -> p.Ack:
        """Load a version that turns are to get. Raises ClusterError."""
        await self._versions.load(message.version)
        return p.Ack()

    async def use_versions(self, message: UseVersions) -> p.Ack:
        """Take over which versions there are now, and give up what is needed no more. Raises ClusterError."""
        for version in message.record.given:
            await self._versions.load(version)
        if message.record.number > self._record.number:
            _tell_change(self._record, message.record)
            self._use(message.record)
            self._give_up()
        return p.Ack()

    def _unused(self, version: str) -> None:
        if version not in self._record.given:
            self._give_up()

    def _give_up(self) -> None:
        """Give up the processes of versions by which no turn runs, nor will; and those versions that are kept no more."""
        versions = self._versions
        used = {*self._record.given, *versions.held}
        if "" in versions.held:
            used.update(version for version, parts in versions.loaded.items() if parts is versions.first)
        for version in [each for each in versions.loaded if each not in used and each not in self._record.ids]:
            if versions.loaded[version] is not versions.first:
                del versions.loaded[version]
        if self._trees is not None:
            self._trees.retain(used, versions.loaded)

    async def _load(self, trees: TreeSource, version: str) -> VersionParts:
        async with self._loading:
            if version not in self._versions.loaded:
                tree = await trees.tree(version)
                self._versions.loaded[version] = self._versions.made(tree.directory, tree.topology, tree.plugins)
                self._use(self._record)
            return self._versions.loaded[version]


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
