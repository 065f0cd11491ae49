"""Which version a turn begins with, and which actors serve its agents: an older one, if the agent is the same in both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.layers.updates.versions import TreeVersion, VersionRecord
from actors.messages.session import SessionKey
from actors.rules.capacity.sharding import is_in_share


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
