"""What updates are given when a Session actor or a Runner is made: the versions of the tree, and where they are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from actors.definitions.agents.plugin import Plugin
from actors.interfaces.transport import AgentDirectory
from actors.layers.updates.versions import NO_VERSIONS, TreeVersion, VersionRecord
from actors.messages.topology import Topology


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
