"""Versions of a tree: which one a turn gets, which actors serve it, and what updates make of the record of versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.errors import RequestError
from actors.layers.updates.versions import KeptVersion, TreeDifference, TreeVersion, VersionRecord, VersionShare
from actors.messages.session import SessionKey
from actors.rules.sharding import is_in_share


def version_for(record: VersionRecord, key: SessionKey, created_s: float) -> str:
    """The version that a new turn of a session gets: the same for all its turns, as long as the record stays the same.

    Args:
        created_s: when the session was created, in seconds since the epoch.
    """
    share = record.share
    if share is None or created_s < share.since_s:
        return record.current
    is_in = is_in_share("\0".join((share.version, key.app, key.user, key.session)), share.part)
    return share.version if is_in else record.current


Marks = Mapping[str, str]
"""By agent the name of the version that has brought it as it is; agents of the first version are left out."""


class MarkedVersion(NamedTuple):
    """A version, and the marks of its agents."""

    version: TreeVersion
    marks: Marks


def marks_of(version: TreeVersion, known: Sequence[MarkedVersion], leaders: Mapping[str, str]) -> Marks:
    """The marks of a version's agents.

    Args:
        known: the versions before; the first is the one with which the deployment was started.
        leaders: of agents that share a process with others. If one of them is another than before, all of them are new.
    """
    first, found = known[0].version.actor_prints, dict[str, str]()
    groups: dict[str, list[str]] = {}
    for agent, leader in leaders.items():
        groups.setdefault(leader, []).append(agent)
    for group in groups.values():
        if mark := _mark(version, group, known):
            found.update(dict.fromkeys(group, mark))
    for agent, actor in version.actor_prints.items():
        if agent not in leaders and first.get(agent) != actor and (mark := _mark(version, (agent,), known)):
            found[agent] = mark
    return found


def known_still(known: Sequence[MarkedVersion], loaded: Collection[str]) -> list[MarkedVersion]:
    """The versions that are remembered when only some are loaded: these, and the first one, which unmarked agents are of."""
    return [known[0], *(each for each in known[1:] if each.version.id in loaded)]


def serves_any(versions: Iterable[MarkedVersion], agent: str, mark: str) -> bool:
    """Whether the actor of an agent with that mark serves one of some versions."""
    return any(agent in each.version.actor_prints and each.marks.get(agent, "") == mark for each in versions)


def _mark(version: TreeVersion, agents: Collection[str], known: Sequence[MarkedVersion]) -> str:
    """The mark of agents that live together; "" when they are as in the first version."""
    for other, marks in known:
        if all(other.actor_prints.get(agent) == version.actor_prints[agent] for agent in agents):
            marked = {marks.get(agent, "") for agent in agents}
            if len(marked) == 1:
                return marked.pop()
    return version.id


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
