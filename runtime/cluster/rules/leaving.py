"""Which processes of Session actors and Runners leave nodes that are about to end, and when.

A process leaves by ending itself: its standby takes its place, or Ray starts it again, on another node.

Rules of this file:
1. A process stays while no other node has what it asks for, and where its store may be a file of its node.
2. One that stands by leaves at once, as does what limits models. One that leads waits until its standby is ready on a node that
   stays.
3. Runners wait for the Session actors: one that begins anew asks them first for the turns that were running.
4. Those without standbys leave one after the other: each is waited for until it runs again.
5. Shortly before the node ends nothing is waited for: a loss takes longer to be noticed than a process to start again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

LAST_S = 8.0
"""How long before its end a node is left by those that wait for others."""


class Whereabouts(NamedTuple):
    """What a process says of itself.

    Attributes:
        node: the id of its node; "": it does not answer, since it is being started.
        leads: it is the actor, or else stands by.
        is_ready: where it stands by, it has made ready what it will need.
        bound_to: what may be on its node only, such as the file of its store; "": nothing.
    """

    node: str = ""
    leads: bool = False
    is_ready: bool = False
    bound_to: str = ""


class CoreProcess(NamedTuple):
    """A process that a deployment cannot be without: of a Session actor, a Runner, or what limits models.

    Attributes:
        actor: the name of the actor, of which there may be two processes.
        rest: see Whereabouts.
    """

    name: str
    actor: str
    is_session: bool
    node: str = ""
    leads: bool = False
    is_ready: bool = False
    bound_to: str = ""


def leaving(processes: Sequence[CoreProcess], ends_s: Mapping[str, float | None], *, has_room: bool, now_s: float) -> set[str]:
    """The names of the processes that leave now.

    Args:
        ends_s: when each node ends that is about to, in seconds since the epoch; None: it has no time. By the ids of the nodes.
        has_room: another node has what they ask for.
        now_s: the time, in seconds since the epoch.
    """
    if not has_room:
        return set()
    there = [each for each in processes if each.node in ends_s and not each.bound_to]
    late = {each.name for each in there if _is_late(ends_s[each.node], now_s)}
    ready = [each for each in there if _is_time(each, processes, ends_s)]
    alone = [each for each in ready if each.leads and not _others(each, processes)]
    waiting = alone[0 if any(not each.node for each in processes) else 1 :]
    return late | {each.name for each in ready if each not in waiting}


def _is_late(ends_s: float | None, now_s: float) -> bool:
    return ends_s is not None and ends_s - now_s < LAST_S


def _is_time(process: CoreProcess, processes: Sequence[CoreProcess], ends_s: Mapping[str, float | None]) -> bool:
    if not process.leads:
        return True
    return all(_stays(each, ends_s) and each.is_ready for each in _others(process, processes)) and (
        process.is_session or _have_left({each.actor for each in processes if each.is_session}, processes, ends_s)
    )


def _others(process: CoreProcess, processes: Sequence[CoreProcess]) -> list[CoreProcess]:
    """The other processes of the same actor."""
    return [each for each in processes if each.actor == process.actor and each.name != process.name]


def _stays(process: CoreProcess, ends_s: Mapping[str, float | None]) -> bool:
    return process.node != "" and process.node not in ends_s


def _have_left(actors: set[str], processes: Sequence[CoreProcess], ends_s: Mapping[str, float | None]) -> bool:
    """Whether each of these actors is led where it stays."""
    leaders = [each for each in processes if each.leads]
    return actors == {each.actor for each in leaders if each.actor in actors and (each.bound_to or _stays(each, ends_s))}
