"""What updates and rollbacks make of the record of versions. Each gives a record with the next number.

It keeps what new turns got by the record before: a turn may begin by that after it was asked which versions are in use.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actors.errors import RequestError
from actors.layers.updates.versions import KeptVersion, TreeDifference, TreeVersion, VersionRecord, VersionShare


def first_record(version: TreeVersion, since_s: float) -> VersionRecord:
    """The record of a deployment that starts with a version."""
    return VersionRecord(current=version.id, kept=(KeptVersion(version.id, since_s, has_tasks=version.topology.has_tasks),))


def updated(record: VersionRecord, version: KeptVersion, part: float = 1.0, in_use: Collection[str] = ()) -> VersionRecord:
    """The record when a version is given to new turns, or to a part of the new sessions.

    Args:
        version: with the time at which the deployment gets it.
        in_use: versions with which turns have begun that are open or paused: their trees stay.
    """
    if part < 1.0:
        share = VersionShare(version.id, part, version.since_s)
        return _kept(record, record.current, record.previous, share, in_use, version)
    previous = record.current if version.id != record.current else record.previous
    return _kept(record, version.id, previous, None, in_use, version)


def rolled_back(record: VersionRecord, in_use: Collection[str] = ()) -> VersionRecord:
    """The record when new turns get the version before the current one; of a version with a share, when none gets it any more.

    Raises:
        RequestError: there is no version before.
    """
    if record.share is not None:
        return _kept(record, record.current, record.previous, None, in_use)
    if not record.previous:
        raise RequestError("there is no version to roll back to: the deployment runs the one with which it was started")
    return _kept(record, record.previous, record.current, None, in_use)


def taken_over(record: VersionRecord, version: KeptVersion, trees: Collection[str]) -> VersionRecord:
    """The record with which a deployment begins that goes on with another one's turns.

    Args:
        record: that of the other one.
        version: with which this one is started.
        trees: versions whose trees it takes over. Turns that began with any other go on with the one that new turns get.
    """
    there, is_same = {version.id, *trees}, version.id == record.current
    previous = record.previous if is_same else record.current
    kept = tuple(each for each in record.kept if each.id in there)
    return VersionRecord(
        number=record.number + 1,
        current=version.id,
        previous=previous if previous in there else "",
        share=record.share if is_same and record.share is not None and record.share.version in there else None,
        kept=kept if version.id in record.ids else (*kept, version),
    )


def _kept(
    record: VersionRecord,
    current: str,
    previous: str,
    share: VersionShare | None,
    in_use: Collection[str],
    new: KeptVersion | None = None,
) -> VersionRecord:
    wanted = {current, previous, *in_use, *record.given} | ({share.version} if share is not None else set())
    kept = tuple(version for version in record.kept if version.id in wanted)
    if new is not None and new.id not in record.ids:
        kept = (*kept, new)
    return msgspec.structs.replace(record, number=record.number + 1, current=current, previous=previous, share=share, kept=kept)


def tree_difference(before: TreeVersion, after: TreeVersion) -> TreeDifference:
    """The agents that were added, changed, removed, or touched by what was: each is in one of the lists."""
    if before.id == after.id:
        return TreeDifference()
    old, new = before.definition_prints, after.definition_prints
    kept = old.keys() & new.keys()
    changed = {name for name in kept if old[name] != new[name]}
    actors = before.actor_prints, after.actor_prints
    touched = {name for name in kept - changed if actors[0][name] != actors[1][name]}
    return TreeDifference(
        added=sorted(new.keys() - old.keys()),
        changed=sorted(changed),
        removed=sorted(old.keys() - new.keys()),
        touched=sorted(touched),
    )
