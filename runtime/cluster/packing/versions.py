"""Versions of a tree: as they travel to Runners, and kept by Ray's control service, so that they outlive each process.

A tree is kept before the record that names it, and the record before any actor goes by it. Records are numbered; of two programs
that update at the same time, one keeps the record of the next number, and the other is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ray.exceptions import RayError

from actors.errors import ClusterError, UpdateConflictError
from actors.interfaces.model import Model
from actors.layers.flows.definitions import FlowPlan
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.rules import MarkedVersion, Marks, known_still, marks_of, taken_over
from actors.layers.updates.versions import NO_VERSIONS, KeptVersion, TreeVersion, VersionRecord
from actors.messages.codec import decode, encode
from actors.messages.event import now_s
from runtime.cluster.packing.definitions import PackedDefinitions, PackedTree, pack_tree, unpack
from runtime.cluster.packing.pickling import from_chunks, pickled, pickled_plan, to_chunks, unpickle
from runtime.cluster.ray import key_values
from runtime.cluster.ray.key_values import KeyValuesMissingError
from runtime.engine.deployment import distinct_models, model_checks, plans_of, slow_imports
from runtime.settings import Settings

logger = logging.getLogger(__name__)

ModelReplacement = Callable[[str | Model], str | Model]
"""Gives what travels instead of a model."""


@dataclass(frozen=True)
class PackedVersion:
    """A version of a tree, ready to travel.

    Attributes:
        version: what tells it from others.
        plugins: pickled.
        plans: those of its flows, pickled, by the names of their agents.
    """

    version: TreeVersion
    tree: PackedTree
    plugins: bytes
    plans: Mapping[str, bytes]


def packed_tree(tree: AgentTree, definitions: PackedDefinitions) -> PackedTree:
    """The part of a tree that a Runner needs to activate its agents."""
    distinct = distinct_models(tree)
    return PackedTree(definitions, tree.process_groups, slow_imports(tree, distinct), model_checks(tree, distinct))


def pack_version(tree: AgentTree, replace_model: ModelReplacement) -> PackedVersion:
    """A version of a tree, ready to travel. Raises DefinitionError: something in it cannot travel; the message names it."""
    definitions = pack_tree(tree, replace_model)
    plugins = pickled("the plugins cannot travel to the Runner", tree.plugins)
    return PackedVersion(tree.version, packed_tree(tree, definitions), plugins, pickled_plans(plans_of(tree)))


def pickled_plans(plans: Mapping[str, FlowPlan]) -> dict[str, bytes]:
    """The plans of flows, pickled. Raises DefinitionError."""
    return {flow: pickled_plan(flow, plan) for flow, plan in plans.items()}


class VersionDefinitions:
    """The packed definitions of a Runner's agents, by name; those that an update has changed, with their marks: see Replica.

    Asking for one of a version that is forgotten raises ClusterError.

    Args:
        version: with which the deployment was started.
    """

    def __init__(self, version: TreeVersion, definitions: PackedDefinitions) -> None:
        self._first = definitions
        self._known = [MarkedVersion(version, {})]
        self._later: list[tuple[MarkedVersion, PackedDefinitions]] = []

    @property
    def first(self) -> str:
        """The version with which the deployment was started."""
        return self._known[0].version.id

    def __getitem__(self, name: str) -> bytes:
        # The controller of flows begins with the sign that parts a mark.
        agent, _, mark = name.rpartition("@")
        if not agent:
            return self._first[name]
        packed = next((packed for known, packed in self._later if known.marks.get(agent) == mark), None)
        if packed is None:
            raise ClusterError(f"agent {agent!r} of version {mark!r} of the tree was given up: no turn runs by it")
        return packed[agent]

    def add(self, version: TreeVersion, tree: PackedTree) -> Marks:
        """Take a version in. Returns the marks of its agents."""
        leaders = {agent: group.leader for agent, group in tree.process_groups.items()}
        marked = MarkedVersion(version, marks_of(version, self._known, leaders))
        self._known.append(marked)
        self._later.append((marked, tree.definitions))
        return marked.marks

    def of(self, versions: Collection[str]) -> list[MarkedVersion]:
        """Those of some versions that are known."""
        return [known for known in self._known if known.version.id in versions]

    def forget(self, loaded: Collection[str]) -> None:
        """Forget all versions that are not loaded; the first one stays."""
        self._known = known_still(self._known, loaded)
        self._later = [each for each in self._later if each[0].version.id in loaded]


@dataclass(frozen=True)
class KeptVersions:
    """Implements `VersionSource`. Its other methods block their thread.

    Attributes:
        deployment: tells it from others of that name.
    """

    namespace: str
    app_name: str
    deployment: str

    def key(self, kind: str = "", name: str = "") -> str:
        """Under which a value of the deployment is kept; without `kind` how the keys of all of them begin."""
        of_deployment = f"{self.namespace}/{self.app_name}/{self.deployment}/"
        return f"{of_deployment}{kind}/{name}" if kind else of_deployment

    def begin(self, version: TreeVersion, record: VersionRecord) -> None:
        """Keep the version with which the deployment starts."""
        try:
            key_values.put_new(self.key("version", version.id), encode(version))
            key_values.put_new(self.key("record", _numbered(record.number)), encode(record))
        except KeyValuesMissingError:
            # It runs all the same, and cannot be updated.
            return

    def take_over(self, deployment: str, trees: Collection[str], version: TreeVersion) -> None:
        """Keep the version with which the deployment starts, and others that another one has kept of the same app.

        Args:
            deployment: the other one, which has ended.
            version: the one with which the deployment starts.
        """
        other = replace(self, deployment=deployment)
        found = {}
        for name in trees:
            with suppress(ClusterError):
                found[name] = [(kind, other._value(kind, name)) for kind in ("tree", "version")]
        try:
            for name, values in found.items():
                for kind, value in values:
                    key_values.put_new(self.key(kind, name), value)
        except KeyValuesMissingError:
            return
        own = KeptVersion(version.id, now_s(), has_tasks=version.topology.has_tasks)
        self.begin(version, taken_over(other.record(), own, found))

    def forget(self) -> None:
        """Forget all: the deployment has ended."""
        key_values.delete_below(self.key())

    def forget_others(self, but: str = "") -> None:
        """Forget deployments of the same name that have ended without being stopped, except one."""
        own = self.key(), replace(self, deployment=but or self.deployment).key()
        for key in key_values.keys_below(f"{self.namespace}/{self.app_name}/"):
            if not key.startswith(own):
                key_values.delete(key)

    def record(self) -> VersionRecord:
        """The newest record; an empty one where none is kept. Raises ClusterError."""
        try:
            keys = key_values.keys_below(self.key("record"))
            raw = key_values.value_of(keys[-1]) if keys else None
        except (RayError, RuntimeError) as error:
            raise self._failed(error) from error
        if raw is None:
            # Another program may have kept the next one, and deleted this one, meanwhile.
            return self.record() if keys else NO_VERSIONS
        return decode(raw, VersionRecord)

    def found(self, version: str) -> TreeVersion:
        """A version. Raises ClusterError when it is not kept, or cannot be read."""
        return decode(self._value("version", version), TreeVersion)

    def all_found(self, record: VersionRecord, known: TreeVersion) -> Sequence[TreeVersion]:
        """The versions in a record; one that is known already is not read again. Raises ClusterError."""
        return [known if version == known.id else self.found(version) for version in record.ids]

    async def version(self, version: str) -> TreeVersion:
        """A version by its name. Raises ClusterError when it is not kept, or cannot be read."""
        return await asyncio.to_thread(self.found, version)

    def content(self, version: str) -> Any:
        """The content that `keep` was given for a version. Raises ClusterError; and what unpickling it raises."""
        return from_chunks([self._value("tree", version)])

    def loadable(self) -> list[str]:
        """The versions in the newest record whose trees this process can load whole. Raises ClusterError."""
        return [version for version in self.record().ids if self._can_load(version)]

    def _can_load(self, version: str) -> bool:
        try:
            packed: PackedVersion = self.content(version)
            for definition in packed.tree.definitions.values():
                unpack(definition)
            for pickled in (packed.plugins, *packed.plans.values()):
                unpickle(pickled)
        except Exception as error:
            # Unpickling runs users' modules and those of another release, which may raise anything.
            logger.info("version %s of the tree cannot be kept: %s: %s", version, type(error).__name__, error)
            return False
        return True

    def keep(self, version: TreeVersion, chunks: Sequence[bytes]) -> None:
        """Keep a version, with what Runners need of it, as `to_chunks` gives it. Raises ClusterError."""
        try:
            key_values.put_new(self.key("tree", version.id), b"".join(chunks))
            key_values.put_new(self.key("version", version.id), encode(version))
        except (RayError, RuntimeError, KeyValuesMissingError) as error:
            raise self._failed(error) from error

    def keep_record(self, record: VersionRecord) -> None:
        """Keep a record with the next number, and forget what it does not name. Raises UpdateConflictError, ClusterError."""
        try:
            before = self.record()
            numbered = self.key("record", _numbered(record.number))
            if record.number != before.number + 1 or not key_values.put_new(numbered, encode(record)):
                raise UpdateConflictError(self.app_name)
            key_values.delete(self.key("record", _numbered(before.number)))
            for version in set(before.ids) - set(record.ids):
                for kind in ("tree", "version"):
                    key_values.delete(self.key(kind, version))
        except (RayError, RuntimeError, KeyValuesMissingError) as error:
            raise self._failed(error) from error

    def _value(self, kind: str, version: str) -> bytes:
        try:
            found = key_values.value_of(self.key(kind, version))
        except (RayError, RuntimeError) as error:
            raise self._failed(error) from error
        if found is None:
            raise ClusterError(f"version {version!r} of app {self.app_name!r} is not kept any more")
        return found

    def _failed(self, error: Exception) -> ClusterError:
        return ClusterError(f"Ray does not keep the versions of app {self.app_name!r}: {type(error).__name__}: {error}")


class KeptTrees:
    """Implements `TreeKeeper` for a program.

    Args:
        replace_model: gives what travels instead of a model.
    """

    def __init__(self, kept: KeptVersions, replace_model: ModelReplacement, settings: Settings) -> None:
        self._kept = kept
        self._replace_model = replace_model
        self._variables = settings.variables

    async def record(self) -> VersionRecord:
        """The newest record. Raises ClusterError."""
        return await asyncio.to_thread(self._kept.record)

    async def version(self, version: str) -> TreeVersion:
        """A version by its name. Raises ClusterError when it is not kept."""
        return await self._kept.version(version)

    async def keep_tree(self, tree: AgentTree) -> None:
        """Keep a tree: see TreeKeeper."""
        await asyncio.to_thread(self._keep, tree)

    def _keep(self, tree: AgentTree) -> None:
        self.keep_packed(pack_version(tree, self._replace_model))

    def keep_packed(self, packed: PackedVersion) -> None:
        """Keep a tree that is ready to travel. It blocks its thread. Raises DefinitionError, ClusterError: see TreeKeeper."""
        refusal = "the tree cannot travel to the Runners"
        self._kept.keep(packed.version, to_chunks(refusal, packed, must_last=True, variables=self._variables))

    async def keep_record(self, record: VersionRecord) -> None:
        """Keep another record of versions: see TreeKeeper."""
        await asyncio.to_thread(self._kept.keep_record, record)


def _numbered(number: int) -> str:
    return f"{number:012d}"
