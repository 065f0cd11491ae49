"""The versions of the tree in a Session actor: it decides which one a turn begins with, and stores that with the turn."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from actors.interfaces.records import TurnRow
from actors.messages import protocol as p
from actors.messages.operating.versions import TreeVersion
from actors.messages.topology import Topology
from actors.messages.turn_info import TurnInfo
from actors.rules.versions.marks import version_for
from actors.session.environment import SessionEnvironment
from actors.session.log.open_turn import SessionTurn, TurnExtension
from actors.session.log.session_log import SessionLog
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


class SessionVersions:
    """Answers GetTopology, GetVersions and UseVersions. A version is not given to turns before its parent map is here.

    Args:
        environment: the tree with which the deployment was started, and those that it has got since then.
        access: the store.
    """

    def __init__(self, environment: SessionEnvironment, access: StoreAccess) -> None:
        self._access = access
        self._base = TreeVersion(environment.version, environment.topology, b"", b"")
        self._source = environment.version_source
        self._record = environment.versions
        self._known = {version.id: version for version in environment.kept_versions}

    @property
    def current(self) -> TreeVersion:
        """The version that new turns get."""
        return self._known.get(self._record.current, self._base)

    def topology(self, version: str) -> Topology:
        """The parent map of a version; that of the current one, if the deployment does not have it."""
        return (self._known.get(version) or self.current).topology

    def of_new(self, log: SessionLog) -> str:
        """The name of the version that a new turn of a session gets."""
        # Where nothing keeps records of versions, there is no other.
        return version_for(self._record, log.key, log.created_s) or self._base.id

    def of_open(self, log: SessionLog, row: TurnRow) -> str:
        """The name of the version by which a turn goes on: the one that it began with, where the deployment has that."""
        return row.version if row.version in self._known else self.of_new(log)

    def go_on(self, log: SessionLog, turn: SessionTurn, seq: int) -> None:
        """Have a turn go on by its version, from a position of its log on, or by another one if the deployment lacks that."""
        version = self.of_open(log, turn.row)
        if version != turn.row.version:
            turn.row = replace(turn.row, version=version)
            VersionChange.of(turn).seq = seq

    async def get_topology(self, message: p.GetTopology) -> p.TopologyReply:
        """The parent map of the current version, unless it is known."""
        current = self.current
        if message.known and message.known == current.id:
            return p.TopologyReply(version=current.id)
        return p.TopologyReply(topology=current.topology, version=current.id)

    async def get_versions(self, message: p.GetVersions) -> p.VersionsReply:
        """The versions in use: of a store that does not tell, all that are kept. Raises StoreError."""
        # Turns that have just begun are on their way to the disk.
        await self._access.commits.flush()
        stored = await self._access.read(self._access.store.open_versions, message.app)
        return p.VersionsReply(versions=tuple(stored) if stored is not None else self._record.ids)

    async def use_versions(self, message: p.UseVersions) -> p.Ack:
        """Take over which versions there are now. Raises ClusterError when one cannot be read: then all stays as it was."""
        record = message.record
        found = dict(self._known)
        for version in record.ids:
            if version not in found and self._source is not None:
                found[version] = await self._source.version(version)
        if record.number > self._record.number:
            self._record = record
            self._known = {version: found[version] for version in record.ids if version in found}
        return p.Ack()
