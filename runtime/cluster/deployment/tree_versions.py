"""The versions of the tree in a Runner's process: read when turns get them, and given up when none does."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from actors.definitions.agents import Plugin
from actors.errors import ClusterError, RaygroveError
from actors.errors.user_code import error_text
from actors.layers.updates.environment import RunnerTree
from actors.layers.updates.rules.marks import serves_any
from actors.layers.updates.versions import VersionRecord
from runtime.cluster.deployment.kept_versions import KeptVersions
from runtime.cluster.packing.importing import unpickle
from runtime.cluster.packing.versions import PackedVersion, VersionDefinitions
from runtime.cluster.processes.directory import RayDirectory


class RayTrees:
    """Implements `TreeSource`."""

    def __init__(self, kept: KeptVersions, directory: RayDirectory, definitions: VersionDefinitions) -> None:
        self._kept = kept
        self._directory = directory
        self._definitions = definitions
        self._plans: dict[str, Mapping[str, bytes]] = {}

    async def tree(self, version: str) -> RunnerTree:
        """A version that is kept. Raises ClusterError when it is not, or cannot be read or loaded."""
        try:
            packed, plugins = await asyncio.to_thread(self._load, version)
        except RaygroveError:
            raise
        except Exception as error:
            # Loading plugins runs user modules, which may raise anything.
            reason = f"{type(error).__name__}: {error_text(error)}"
            raise ClusterError(f"version {version!r} of the tree cannot be loaded in the Runner: {reason}") from error
        self._plans[version] = packed.plans
        marks: Mapping[str, str] = self._definitions.add(packed.version, packed.tree)
        directory = self._directory.of_version(packed.tree, marks)
        return RunnerTree(packed.tree.definitions.topology, directory, plugins)

    async def newest_record(self) -> VersionRecord:
        """The record that is kept now. Raises ClusterError."""
        return await asyncio.to_thread(self._kept.record)

    async def has_later(self) -> bool:
        """Whether new turns get another version than the first one now. Raises ClusterError."""
        record = await self.newest_record()
        return any(version not in ("", self._definitions.first) for version in record.given)

    def _load(self, version: str) -> tuple[PackedVersion, Sequence[Plugin]]:
        packed: PackedVersion = self._kept.content(version)
        return packed, unpickle(packed.plugins)

    def plan(self, flow: str) -> bytes | None:
        """The definition of a flow in these versions, pickled, by the name of its agent; None where none has it."""
        return next((plans[flow] for plans in reversed(self._plans.values()) if flow in plans), None)

    def retain(self, used: Collection[str], loaded: Collection[str]) -> None:
        """End the agents of versions that are not in use, and processes in which none is left: see TreeSource."""
        versions = self._definitions.of(used)
        self._directory.retain(lambda replica: serves_any(versions, replica.agent, replica.mark))
        self._definitions.forget(loaded)
        self._plans = {version: plans for version, plans in self._plans.items() if version in loaded}
