"""What an upgrade would find: stores, trees, nodes, programs that have joined, and settings. It changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from actors.errors import UpgradeRefusedError
from actors.messages.operating.upgrades import JoinedProgram, StoreUpgrade, UpgradeReport
from actors.messages.operating.versions import TreeDifference, TreeVersion, VersionRecord
from actors.rules.versions.difference import tree_difference
from runtime.cluster.deployment.engine import RayEngine
from runtime.cluster.deployment.joined import JoinedEngine
from runtime.cluster.notices.notices import UpgradeNotice
from runtime.cluster.notices.release import this_release
from runtime.cluster.notices.spoken import can_stay
from runtime.cluster.upgrading.nodes import node_releases
from runtime.cluster.upgrading.trees import loadable_trees
from runtime.settings import Settings
from runtime.stores.transfer.state import StoreState, memory_store_state, session_store_state

Deployed = RayEngine | JoinedEngine
"""The engine of a deployment that runs: this program has started it, or has joined it."""

_NOT_SHOWN = {"env"}


def look_ahead(old: Deployed, new: RayEngine, in_use: Collection[str]) -> tuple[UpgradeReport, UpgradeNotice]:
    """Find what an upgrade would meet, and the notice that names what the new deployment takes over. It blocks its thread.

    Args:
        in_use: versions of the tree by which turns are open or paused.

    Raises:
        UpgradeRefusedError: the new tree lacks what only the program knows that has given the old one.
        ClusterError, StoreError: Ray or a store does not answer.
    """
    kept, after = old.kept, new.deployment.tree.version
    record = kept.record()
    trees = loadable_trees(kept, record)
    current = kept.found(record.current) if record.current else None
    if current is not None:
        _refuse_lost_parts(new.deployment.app_name, current, after)
    told = old.notices.deployment()
    report = UpgradeReport(
        release_before=str(told.release) if told is not None and told.deployment == kept.deployment else "",
        release_after=str(this_release()),
        version_before=current.id if current is not None else "",
        version_after=after.id,
        difference=tree_difference(current, after) if current is not None else TreeDifference(),
        kept=[each for each in trees if each != after.id],
        given_up=sorted({*in_use} - {*trees, after.id} - _unknown(record, in_use)),
        stores=list(_stores(old, new)),
        programs=[
            JoinedProgram(
                program=each.program, release=str(each.release), can_stay=can_stay(each.protocol, new.deployment.settings)
            )
            for each in old.notices.programs(but=old.told_as)
        ],
        nodes=node_releases(),
        settings=_changed_settings(old.settings, new.deployment.settings),
    )
    before = told.before if told is not None and told.deployment == kept.deployment else ()
    return report, UpgradeNotice(deployment=kept.deployment, versions=tuple(trees), before=before)


def kept_versions(old: Deployed) -> Sequence[str]:
    """The versions of the tree that are taken over of a deployment that has ended: another program may have updated it meanwhile.

    Raises ClusterError: Ray does not answer.
    """
    return loadable_trees(old.kept, old.kept.record())


def _unknown(record: VersionRecord, in_use: Collection[str]) -> set[str]:
    """Versions of which this deployment has no tree either: their turns go on with another one already."""
    return {*in_use} - {*record.ids}


def _refuse_lost_parts(app: str, before: TreeVersion, after: TreeVersion) -> None:
    if before.is_masked and not after.is_masked:
        reason = "what is recorded of its requests is masked, by a function that the new one does not have"
        raise UpgradeRefusedError(app, reason, "Give mask_requests, in a program: see Runtime.upgrade")
    if after.plugins < before.plugins:
        reason = f"it has {before.plugins} plugins, and the new one has {after.plugins}"
        raise UpgradeRefusedError(app, reason, "Give plugins, in a program: see Runtime.upgrade")


def _stores(old: Deployed, new: RayEngine) -> Iterator[StoreUpgrade]:
    deployment = old.kept.deployment
    for sessions, memory in new.deployment.stores:
        if isinstance(sessions, str):
            state = session_store_state(sessions, new.deployment.app_name)
            is_owned = not deployment or state.deployment is None or state.deployment == deployment
            yield _upgrade_of(state, is_owned=is_owned)
        if isinstance(memory, str):
            yield _upgrade_of(memory_store_state(memory), is_owned=True)
    artifacts = new.deployment.artifact_store
    if isinstance(artifacts, str) and isinstance(old.artifact_store, str):
        yield StoreUpgrade(store=f"artifact store {artifacts!r}", before=0, after=0, is_owned=artifacts == old.artifact_store)


def _upgrade_of(state: StoreState, *, is_owned: bool) -> StoreUpgrade:
    return StoreUpgrade(store=state.name, before=state.version, after=state.known, is_owned=is_owned)


def _changed_settings(before: Settings | None, after: Settings) -> list[str]:
    if before is None:
        return []
    old, new = before.model_dump(exclude=_NOT_SHOWN), after.model_dump(exclude=_NOT_SHOWN)
    return [f"{name}: {old[name]!r}, then {new[name]!r}" for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
