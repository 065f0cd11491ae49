"""A version of a tree as it travels to Runners, and the definitions of agents in all versions that a Runner has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from actors.errors import ClusterError
from actors.interfaces.model import Model
from actors.layers.flows.definitions import FlowPlan
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.rules.marks import MarkedVersion, Marks, known_still, marks_of
from actors.layers.updates.versions import TreeVersion
from runtime.cluster.packing.definitions import PackedDefinitions, PackedTree, pack_tree
from runtime.cluster.packing.pickling import pickled, pickled_plan
from runtime.engine.deployment import distinct_models, model_checks, plans_of, slow_imports

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
