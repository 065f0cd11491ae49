"""The versions of the tree: a Session actor decides which one a turn begins with, and a Runner runs each turn by its own."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import ClassVar

from msgspec.structs import replace

from actors.actor import Handlers
from actors.errors import ClusterError
from actors.interfaces.telemetry import tell_event
from actors.layers.stores.parts import store_of
from actors.layers.updates.messages import GetVersions, LoadVersion, UseVersions, VersionsReply
from actors.layers.updates.rules import version_for
from actors.layers.updates.versions import SessionTrees, TreeSource, VersionRecord
from actors.messages import protocol as p
from actors.messages.topology import Topology
from actors.messages.turn_info import TurnInfo
from actors.runner.environment import RunnerEnvironment
from actors.runner.routing import Routing
from actors.runner.versions import MakeParts, TurnVersions, VersionParts
from actors.session.environment import SessionEnvironment
from actors.session.log.open_turn import SessionTurn, TurnExtension
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionVersions
from actors.session.store.access import StoreAccess


class VersionChange(TurnExtension):
    """Notes that a turn goes on by another version of the tree than it has begun with.

    Attributes:
        seq: up to this position it ran by another version, which its deployment does not have any more; 0: it ran by one.
    """

    name: ClassVar[str] = "version"
    seq: int = 0

    def describe(self, info: TurnInfo) -> TurnInfo:
        """See TurnExtension."""
        return replace(info, version_seq=self.seq) if self.seq else info


class SessionUpdates(SessionVersions):
    """Answers GetVersions and UseVersions, too. A version is not given to turns before its parent map is here.

    Args:
        environment: the tree with which the deployment was started.
    """

    def __init__(self, trees: SessionTrees, environment: SessionEnvironment, access: StoreAccess) -> None:
        super().__init__(environment)
        self._access = access
        self._first = environment.version
        self._source = trees.source
        self._use(trees.record, {version.id: version.topology for version in trees.kept})

    def _use(self, record: VersionRecord, known: dict[str, Topology]) -> None:
        self._record, self._known = record, known
        self.current = record.current if record.current in known else self._first

    def handlers(self) -> Handlers:
        """Its messages."""
        return {**super().handlers(), GetVersions: self.get_versions, UseVersions: self.use_versions}

    def topology(self, version: str) -> Topology:
        """See SessionVersions."""
        return self._known.get(version, self._known.get(self.current, self._topology))

    def of_new(self, log: SessionLog) -> str:
        """See SessionVersions."""
        # Where nothing keeps records of versions, there is no other.
        return version_for(self._record, log.key, log.created_s) or self._first

    def go_on(self, log: SessionLog, turn: SessionTurn, seq: int) -> None:
        """See SessionVersions."""
        if turn.row.version not in self._known and (version := self.of_new(log)) != turn.row.version:
            turn.row = replace(turn.row, version=version)
            VersionChange.of(turn).seq = seq

    async def get_versions(self, message: GetVersions) -> VersionsReply:
        """The versions in use: of a store that does not tell, all that are kept. Raises StoreError."""
        # Turns that have just begun are on their way to the disk.
        await self._access.commits.flush()
        stored = await self._access.read(store_of(self._access).open_versions, message.app)
        return VersionsReply(versions=tuple(stored) if stored is not None else self._record.ids)

    async def use_versions(self, message: UseVersions) -> p.Ack:
        """Take over which versions there are now. Raises ClusterError when one cannot be read: then all stays as it was."""
        record = message.record
        found = dict(self._known)
        for version in record.ids:
            if version not in found and self._source is not None:
                found[version] = (await self._source.version(version)).topology
        if record.number > self._record.number:
            self._use(record, {version: found[version] for version in record.ids if version in found})
        return p.Ack()


class RunnerUpdates(TurnVersions):
    """Gives the parts of each version, and keeps them while turns run by it or new turns get it.

    Args:
        record: which versions the deployment has when the Runner is started.
        trees: where these are kept; None: there are none.
    """

    def __init__(
        self, record: VersionRecord, trees: TreeSource | None, environment: RunnerEnvironment, make_parts: MakeParts
    ) -> None:
        super().__init__(environment, make_parts)
        self._trees = trees
        self._loaded = {environment.version: self._first}
        self._loading = asyncio.Lock()
        self._held: dict[str, int] = {}
        self._use(record)

    def _use(self, record: VersionRecord) -> None:
        # Each turn asks several times, and the answer changes with an update only.
        self._record, self._has_tasks = record, record.has_tasks
        self.current = self._loaded.get(record.current, self._first)

    def handlers(self) -> Handlers:
        """Its messages."""
        return {LoadVersion: self.load_version, UseVersions: self.use_versions}

    @property
    def has_tasks(self) -> bool:
        """See TurnVersions."""
        return self._has_tasks or super().has_tasks

    def find(self, version: str) -> VersionParts | None:
        """See TurnVersions."""
        return self._loaded.get(version) if version else self._first

    def of(self, version: str) -> VersionParts:
        """See TurnVersions."""
        return self._loaded[version] if version else self._first

    async def load(self, version: str = "") -> VersionParts:
        """See TurnVersions."""
        await super().load()
        if (found := self.find(version)) is not None:
            return found
        async with self._loading:
            found = self.find(version)
            if found is None:
                found = self._loaded[version] = await self._load(version)
                self._use(self._record)
            return found

    async def load_version(self, message: LoadVersion) -> p.Ack:
        """Load a version that turns are to get. Raises ClusterError."""
        await self.load(message.version)
        return p.Ack()

    async def use_versions(self, message: UseVersions) -> p.Ack:
        """Take over which versions there are now, and give up what is needed no more. Raises ClusterError."""
        for version in message.record.given:
            await self.load(version)
        if message.record.number > self._record.number:
            _tell_change(self._record, message.record)
            self._use(message.record)
            self._give_up()
        return p.Ack()

    def hold(self, version: str) -> VersionParts:
        """See TurnVersions."""
        self._held[version] = self._held.get(version, 0) + 1
        return self.of(version)

    def release(self, version: str) -> None:
        """See TurnVersions."""
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
            if self._loaded[version] is not self._first:
                del self._loaded[version]
        if self._trees is not None:
            self._trees.retain(used, self._loaded)

    async def _load(self, version: str) -> VersionParts:
        if self._trees is None:
            raise ClusterError(f"version {version!r} of the tree is not known here")
        tree = await self._trees.tree(version)
        environment = dataclasses.replace(self._environment, plugins=tree.plugins)
        return self._make_parts(environment, tree.directory, Routing(environment.session, tree.topology))


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
