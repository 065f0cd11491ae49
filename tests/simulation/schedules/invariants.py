"""What has to hold for a timetable: each due time makes one turn at most, none is forgotten, and none is made that may not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from actors.messages.event import Event
from tests.simulation.schedules.play import SETTLE_S, Left, Made
from tests.simulation.schedules.timetable import Timetable

IN_TIME_S = 60.0
"""A due time makes its turn within so many seconds, whatever goes wrong, unless its session is busy."""


def problems(given: Timetable, left: Left) -> list[str]:
    """What does not hold."""
    found = list(left.problems)
    if left.open_turns:
        found.append(f"turns are open at the end: {left.open_turns}")
    for made in left.made:
        messages = [event for event in left.messages[made.wanted.session] if _schedule_of(event) == made.wanted.name]
        found += [f"{made.wanted.name}: {each}" for each in _of_schedule(given, made, messages, left.ended_s)]
    return found


def _schedule_of(event: Event) -> str:
    return str((event.custom_metadata or {}).get("schedule", ""))


def _due_s(event: Event) -> int:
    return int(datetime.fromisoformat(str((event.custom_metadata or {})["due"])).timestamp())


def _of_schedule(given: Timetable, made: Made, messages: Sequence[Event], ended_s: float) -> Iterator[str]:
    often = Counter(event.invocation_id for event in messages)
    yield from (f"turn {each} has {number} messages" for each, number in often.items() if number > 1)
    due = [_due_s(event) for event in messages]
    yield from (f"due time {each} makes {number} turns" for each, number in Counter(due).items() if number > 1)
    yield from (f"due time {later} makes its turn after {earlier}" for earlier, later in pairwise(due) if later < earlier)
    yield from (f"due time {each} is none" for each in due if not _is_due(made, each))
    for event in messages:
        if event.timestamp < _due_s(event):
            yield f"due time {_due_s(event)} makes its turn {_due_s(event) - event.timestamp:.3f} s too early"
        if made.deleted_s and event.timestamp > made.deleted_s:
            yield f"due time {_due_s(event)} makes its turn after the schedule was deleted"
        if any(since < event.timestamp < until for since, until in made.pauses):
            yield f"due time {_due_s(event)} makes its turn while the schedule is paused"
    if made.row is not None and made.row.id == made.id and (made.row.turns, made.row.last_s) != (len(due), max(due, default=0)):
        yield f"it counts {made.row.turns} turns, the newest for {made.row.last_s}: the log has {due}"
    if made.id and made.wanted.is_left_alone:
        yield from _forgotten(given, made, due, ended_s)


def _is_due(made: Made, due_s: int) -> bool:
    return not made.wanted.every_s or (due_s - made.start_s) % made.wanted.every_s == 0


def _forgotten(given: Timetable, made: Made, due: Sequence[int], ended_s: float) -> Iterator[str]:
    """What is due makes its turn, or was missed by a policy that makes none."""
    wanted = made.wanted
    if not wanted.every_s:
        if not due and wanted.missed != "skip":
            yield "its only due time makes no turn"
        return
    last_s = int(ended_s - SETTLE_S)
    if max(due, default=0) < last_s - wanted.every_s and not _is_held_up(given, made):
        yield f"its newest turn is for {max(due, default=0)}, and turns were due until {last_s}"
    is_undisturbed = not given.plan.faults and not _is_held_up(given, made)
    # A turn that is about to begin when its session is deleted does not.
    is_deleted = any(each.session == wanted.session and each.what == "delete" for each in given.clears)
    if (wanted.missed == "all" or is_undisturbed) and not is_deleted:
        first_s = made.start_s + wanted.every_s
        lacks = sorted({*range(first_s, max(due, default=0), wanted.every_s)} - {*due})
        if lacks:
            yield f"due times {lacks} make no turns"


def _is_held_up(given: Timetable, made: Made) -> bool:
    """Its session may be busy for as long as the timetable lasts."""
    of_session = sum(each.session == made.wanted.session for each in given.wanted)
    return of_session > 1 or given.thinks_s > 1 or bool(given.talks)
