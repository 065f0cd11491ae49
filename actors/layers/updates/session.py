"""The versions of the tree in a Session actor: it decides which one a turn begins with, and stores that with the turn."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from actors.actor import Handlers
from actors.layers.stores.parts import store_of
from actors.layers.updates.messages import GetVersions, UseVersions, VersionsReply
from actors.layers.updates.rules import version_for
from actors.layers.updates.versions import SessionTrees, VersionRecord
from actors.messages import protocol as p
from actors.messages.topology import Topology
from actors.messages.turn_info import TurnInfo
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
