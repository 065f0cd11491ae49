"""What has to hold of errands: each run that was started has ended once and its end was told once, each message was read once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from actors import Event
from actors.layers.stores.schedule import ScheduleRow, run_name
from actors.messages.event import decode_event
from actors.messages.session import SessionKey, run_of
from actors.messages.turn_info import OVER, BackgroundRun
from tests.simulation.background.staff import HEARINGS, Hearing
from tests.simulation.drivers import APP

if TYPE_CHECKING:
    from tests.simulation.background.play import Office

USER = "user"

STATUS = {"done": "finished", "failed": "failed", "cancelled": "cancelled"}
"""Of the turn of a run that is over, as its record has it."""

SENT = re.compile(r"(?:Agent \w+ says:)?(\S+): (\w+) to (\w+), (\d+)$")
"""The text of a message of an agent: its turn, who sends it to whom, and its number."""


def problems(world: Office) -> Iterator[str]:
    rows = world.rows()
    yield from (f"turn {row.invocation_id} of {key.session} is open at the end" for key, row in world.disk.store.running(APP))
    records = {row.id: row for row in rows if row.plan.run is not None}
    yield from (f"run {each} was started, and is not there" for each in world.started - records.keys())
    for row in records.values():
        yield from _of_run(world, row)
    for row in rows:
        if row.plan.run is None and not _is_kept(row):
            yield f"{_told_row(row)} waits in {row.key.session}"
    yield from _of_messages(world)


def _is_kept(row: ScheduleRow) -> bool:
    """It is for agents in the session of a run, which may never run again."""
    return row.due_s is None and run_of(row.key.session) is not None


def _told_row(row: ScheduleRow) -> str:
    return f"{'what is due' if row.due_s is not None else 'a message'} under {row.id!r}"


def _log(world: Office, session: str) -> Sequence[Event]:
    return [decode_event(raw, seq) for seq, raw in world.disk.store.events(SessionKey(APP, "ada", session))]


def _of_run(world: Office, row: ScheduleRow) -> Iterator[str]:
    record = row.plan.run
    assert record is not None
    run = record.run
    name = f"run {run.id} of {run.agent} in {run.session_id}"
    if not run.is_over:
        yield f"{name} is {run.status} at the end"
        return
    log = _log(world, run.run_session_id)
    turns = [*dict.fromkeys(event.invocation_id for event in log)]
    stored = {turn: world.disk.store.turn(SessionKey(APP, "ada", run.run_session_id), turn) for turn in turns}
    statuses = {turn: found.status for turn, found in stored.items() if found is not None}
    begun = [turn for turn in turns if turn.startswith("run-")]
    if begun != ([f"run-{run.id}"] if begun or run.status == "done" else []):
        yield f"{name} is {run.status}, and has begun the turns {begun}"
    if statuses and STATUS[run.status] not in statuses.values():
        yield f"{name} is {run.status}, and its turns are {statuses}"
    if run.status == "done" and not any(event.text == run.result for event in log):
        yield f"{name} says {run.result!r}, which is not in its log"
    yield from _of_its_end(world, name, record, statuses)


def _of_its_end(world: Office, name: str, record: Any, statuses: dict[str, str]) -> Iterator[str]:
    """Each end of a turn of the run is told once, unless an agent has taken note of it.

    A run that is steered late, or hears of one that it has started, has several.
    """
    run: BackgroundRun = record.run
    log = _log(world, run.session_id)
    told = [event for event in log if _run_in(event).get("id") == run.id]
    ends = [event for event in told if _run_in(event)["status"] in OVER]
    number = max(1, sum(status != "paused" for status in statuses.values()))
    if len(ends) > number:
        yield f"{name} has ended {number} times, and that was told {len(ends)} times"
    # An agent has taken note of it, or the run that has started it is over, and begins no turn any more.
    parent = world.disk.store.schedule(APP, "ada", run_name(run.session_id)) if run_of(run.session_id) else None
    is_over = parent is not None and parent.plan.run is not None and parent.plan.run.is_cancelled
    is_kept = record.options.on_done != "speak" and parent is not None
    is_heard = is_over or is_kept or run.id in _noticed(log)
    if not is_heard and not (1 if run.status == "cancelled" else number) <= len(ends):
        yield f"{name} has ended {number} times, and that was told {len(ends)} times"
    if ends and not is_heard and run.status not in (said := [_run_in(end)["status"] for end in ends]):
        yield f"{name} is {run.status}, and what was told is {said}"


def _noticed(log: Sequence[Event]) -> Iterator[str]:
    """The runs of whose end agents have taken note with a tool."""
    for response in (response for event in log for response in event.function_responses()):
        if response.name in ("check_run", "wait_for_runs"):
            runs = response.response.get("runs", [response.response])
            yield from (str(each["run"]) for each in runs if each.get("status") in OVER)


def _run_in(event: Event) -> dict[str, Any]:
    found = (event.custom_metadata or {}).get("run")
    return found if isinstance(found, dict) and event.author == USER else {}


def _of_messages(world: Office) -> Iterator[str]:
    history = world.loop.history
    sessions = {session for _, session in history.stored}
    logs = {session: _log(world, session) for session in sessions}
    there = Counter(event.id for log in logs.values() for event in log)
    kept = {row.id for row in world.rows()}
    yield from (f"event {each} is in the log {often} times" for each, often in there.items() if often > 1)
    for message, session in world.sent.items():
        if not there[f"words-{message}"] and message not in kept:
            yield f"message {message} was sent in {session}, and never read"
    for session, log in logs.items():
        yield from _in_order(session, log)
    for hearing in HEARINGS:
        if hearing.is_over:
            said = [event.text for event in logs.get(hearing.session, ()) if _says_in(event, hearing)]
            heard = [f"{hearing.agent} heard {text}" for text in hearing.texts]
            if said != heard:
                yield f"{hearing.agent} said {heard} in turn {hearing.turn} of {hearing.session}, and the log has {said}"
            read = [event.text for event in logs[hearing.session] if _is_read_by(event, hearing)]
            if read != hearing.texts:
                where = f"turn {hearing.turn} of {hearing.session}"
                yield f"{hearing.agent} heard {hearing.texts} in {where}, and has read {read}"


def _is_read_by(event: Event, hearing: Hearing) -> bool:
    is_its = (event.invocation_id, event.reader()) == (hearing.turn, hearing.agent)
    # A change of the state is no message.
    return is_its and event.content is not None


def _says_in(event: Event, hearing: Hearing) -> bool:
    is_its = (event.invocation_id, event.author) == (hearing.turn, hearing.agent)
    return is_its and event.text.startswith(f"{hearing.agent} heard ")


def _in_order(session: str, log: Sequence[Event]) -> Iterator[str]:
    """What one agent has sent another was read in the order in which it was sent."""
    turns = {turn: place for place, turn in enumerate(dict.fromkeys(event.invocation_id for event in log))}
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for event in log:
        sent = SENT.match(event.text) if event.author == USER else None
        if sent is not None:
            turn, sender, to, number = sent.groups()
            pairs.setdefault((sender, to), []).append((turns.get(turn, -1), int(number)))
            reader = event.reader()
            if reader and reader != to:
                yield f"{session}: {event.text!r} was read by {reader}"
    for (sender, to), numbers in pairs.items():
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            yield f"{session}: messages of {sender} to {to} were read in the order {numbers}"
