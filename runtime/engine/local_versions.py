"""The versions of a tree on the local engine: kept in this process, and lost with it, as its deployment is."""

from __future__ import annotations

from actors.errors import ClusterError, UpdateConflictError
from actors.layers.flows.definitions import FlowPlan
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.versions import KeptVersion, TreeVersion, VersionRecord
from actors.messages.event import now_s
from runtime.engine.deployment import plans_of
from runtime.engine.flow_registry import FlowRegistry


class LocalVersions:
    """Implements `TreeKeeper` and `VersionSource`.

    Args:
        tree: with which the deployment is started.
        plans: takes those of the flows of later trees.

    Attributes:
        newest: the newest record.
    """

    def __init__(self, app_name: str, tree: AgentTree, plans: FlowRegistry[FlowPlan]) -> None:
        self._app_name = app_name
        self._plans = plans
        self._trees = {tree.version.id: tree}
        self.newest = first_record(tree.version)

    async def record(self) -> VersionRecord:
        """The newest record."""
        return self.newest

    async def version(self, version: str) -> TreeVersion:
        """A version by its name. Raises ClusterError when it is not kept."""
        return self.tree(version).version

    def tree(self, version: str) -> AgentTree:
        """The tree of a version. Raises ClusterError when it is not kept."""
        if version not in self._trees:
            raise ClusterError(f"version {version!r} of app {self._app_name!r} is not kept any more")
        return self._trees[version]

    async def keep_tree(self, tree: AgentTree) -> None:
        """Keep a tree."""
        self._trees.setdefault(tree.version.id, tree)
        for flow, plan in plans_of(tree).items():
            self._plans.add(flow, plan)

    async def keep_record(self, record: VersionRecord) -> None:
        """Keep a record, and no other trees than those in it. Raises UpdateConflictError."""
        if record.number != self.newest.number + 1:
            raise UpdateConflictError(self._app_name)
        self.newest = record
        self._trees = {version: tree for version, tree in self._trees.items() if version in record.ids}


def first_record(version: TreeVersion) -> VersionRecord:
    """The record of a deployment that starts."""
    kept = KeptVersion(version.id, now_s(), has_tasks=version.topology.has_tasks)
    return VersionRecord(current=version.id, kept=(kept,))
