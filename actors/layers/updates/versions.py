"""The versions of a deployment's tree: what tells them apart, which of them new turns get, and what an update changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import msgspec

from actors.definitions.agents.callbacks import Plugin
from actors.interfaces.transport import AgentDirectory
from actors.messages.shown import Shown
from actors.messages.topology import Topology

PRINT_BYTES = 8
"""Length of a fingerprint."""

VersionState = Literal["current", "shared", "previous", "kept"]


class TreeVersion(msgspec.Struct, frozen=True, dict=True):
    """A tree, as far as it takes to tell it from another one.

    Attributes:
        id: the version's name, made of the fingerprints: equal trees have one name, in whichever deployment of one release of
            raygrove.
        topology: the parent map.
        definitions: a fingerprint of each agent's definition, in the order of the topology's nodes.
        actors: a fingerprint of all that each agent's actor is given: its definition, what it inherits, and what
            it sees of others.
        plugins: how many it has.
        is_masked: what is recorded of its requests is masked by a function.
    """

    id: str
    topology: Topology
    definitions: bytes
    actors: bytes
    plugins: int = 0
    is_masked: bool = False

    @cached_property
    def definition_prints(self) -> dict[str, bytes]:
        """The fingerprint of each agent's definition, by agent."""
        return dict(zip(self.topology.names(), _cut(self.definitions), strict=True))

    @cached_property
    def actor_prints(self) -> dict[str, bytes]:
        """The fingerprint of all that an agent's actor is given, by agent."""
        return dict(zip(self.topology.names(), _cut(self.actors), strict=True))


def _cut(prints: bytes) -> Iterator[bytes]:
    return (prints[at : at + PRINT_BYTES] for at in range(0, len(prints), PRINT_BYTES))


class KeptVersion(msgspec.Struct, frozen=True):
    """A version that a deployment keeps.

    Attributes:
        id: its name.
        since_s: when the deployment got it, in seconds since the epoch.
        has_tasks: an agent of it works on tasks with the user.
    """

    id: str
    since_s: float
    has_tasks: bool = False


class VersionShare(msgspec.Struct, frozen=True):
    """A version that only some of the new sessions get.

    Attributes:
        version: its name.
        part: of all new sessions, above 0 and below 1.
        since_s: sessions that were created before keep the current version.
    """

    version: str
    part: float
    since_s: float


class VersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which versions a deployment keeps, and which of them new turns get.

    Attributes:
        number: of this record: it counts the updates.
        current: the version that new turns get.
        previous: the version to which a rollback leads; "": there was none.
        share: the version that some new sessions get; None without one.
        kept: all versions whose trees are kept, the oldest first.
    """

    number: int = 0
    current: str = ""
    previous: str = ""
    share: VersionShare | None = None
    kept: tuple[KeptVersion, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of all versions that are kept."""
        return tuple(version.id for version in self.kept)

    @property
    def given(self) -> tuple[str, ...]:
        """The versions that new turns get: the current one, then the one with a share."""
        return (self.current, self.share.version) if self.share is not None else (self.current,)

    @property
    def has_tasks(self) -> bool:
        """An agent of a version that is kept works on tasks with the user."""
        return any(version.has_tasks for version in self.kept)

    def state(self, version: str) -> VersionState:
        """The part that a version plays which is kept."""
        if version == self.current:
            return "current"
        if self.share is not None and version == self.share.version:
            return "shared"
        return "previous" if version == self.previous else "kept"


NO_VERSIONS = VersionRecord()
"""The record of a deployment of which nothing is known."""


class VersionInfo(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version that a deployment keeps.

    Attributes:
        id: its name.
        state: `current`: new turns get it; `shared`: some new sessions do; `previous`: a rollback leads to it; `kept`: turns that
            are open or paused began with it.
        since_s: when the deployment got it, in seconds since the epoch.
        part: of new sessions that get it, from 0 to 1.
    """

    id: str
    state: VersionState
    since_s: float
    part: float = 0.0


class TreeDifference(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a tree differs from the one before: names of agents, each list sorted.

    Attributes:
        added: are in the new tree only.
        changed: have another definition, other code, or another place in the tree.
        removed: are in the old tree only.
        touched: are defined as before, and get new actors: what they inherit, or what they see of others, has changed.
    """

    added: Sequence[str] = ()
    changed: Sequence[str] = ()
    removed: Sequence[str] = ()
    touched: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.touched)


class UpdateReport(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an update has done, or with `dry_run` would do.

    Attributes:
        version: the version that new turns get now; with a share, the one that some new sessions get.
        before: the version that they had.
        difference: how the trees differ.
        part: of new sessions that get the version; 1.0: all turns.
        answered: calls of agents that are removed, which were answered with an error, by their ids.
        took_s: how long it took, in seconds.
        dry_run: nothing was done.
    """

    version: str
    before: str
    difference: TreeDifference
    part: float = 1.0
    answered: Sequence[str] = ()
    took_s: float = 0.0
    dry_run: bool = False


class VersionSource(Protocol):
    """Keeps versions of a tree."""

    async def version(self, version: str) -> TreeVersion:
        """A version by its name. Raises ClusterError when it is not kept, or cannot be read."""
        ...


class SessionTrees(NamedTuple):
    """The versions that a deployment has when a Session actor is started.

    Attributes:
        record: which of them new turns get.
        kept: all of them.
        source: where those are that it gets later; None: it gets none.
    """

    record: VersionRecord = NO_VERSIONS
    kept: Sequence[TreeVersion] = ()
    source: VersionSource | None = None


ONLY_TREE = SessionTrees()
"""Of a deployment that keeps no versions: its tree is that of the environment."""


@dataclass(frozen=True)
class RunnerTree:
    """A version of the tree, as a Runner works with it.

    Attributes:
        directory: activates the actors of its agents. Versions share the actors of agents that are the same in both.
        plugins: their hooks around turns.
    """

    topology: Topology
    directory: AgentDirectory
    plugins: Sequence[Plugin] = ()


class TreeSource(Protocol):
    """Where the versions are kept that a deployment has got by updates."""

    async def tree(self, version: str) -> RunnerTree:
        """A version that is kept. Raises ClusterError when it is not, or cannot be read or loaded."""
        ...

    def retain(self, used: Collection[str], loaded: Collection[str]) -> None:
        """End the processes of agents of all versions but those in use, as soon as no run is under way in them.

        Args:
            used: turns run by them, or will.
            loaded: those and others that are kept. All that is known of any other one is forgotten; `tree` may give it again.
        """
        ...
