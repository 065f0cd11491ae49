"""What tools see of the state (docs/semantics.md sections 5.6 and 6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from actors import Event
from tests.model.history import NEVER, Moment, SessionId, ToolRun
from tests.model.shown import is_seen
from tests.model.story import SHARED, USER, Story, fold


def state_is_seen(story: Story) -> Iterator[str]:
    """6 State: what an agent writes is seen at once by all agents of the turn: a tool sees what was written before its step.

    That began behind what was said on its branch before, messages aside that agents have read while the turn ran. What agents
    side by side write meanwhile may be seen or not.
    """
    if story.changed_at < NEVER:
        return
    for event, runs in _responses(story):
        began = _began(story, event)
        before = _plain(fold((each for each in story.whole if each.seq <= began), story.first_state))
        written = {key for each in story.whole if each.seq > began for key in each.actions.state_delta}
        written |= {key for run in runs for _, key, _ in run.wrote}
        for run in runs if event.flow is None else ():
            unseen = {key for key, value in before.items() if _lacks(run.saw_first, key, value)}
            if lacks := unseen - written:
                yield f"the tool of call {run.call_id} at {event.seq} has not seen {sorted(lacks)}, which was written before"


def scopes_are_seen(story: Story) -> Iterator[str]:
    """6 State: keys of `user:` are the user's, those of `app:` of all, and those of `temp:` last until their turn has ended.

    A tool sees what was written last before its turn was asked for, and in its session before its step."""
    if story.changed_at < NEVER or story.history.removed:
        return
    shared = _shared(story)
    for event, runs in _responses(story):
        if event.id in story.copied:
            continue
        asks = story.of_turn(event.invocation_id)
        asked = min((ask.began for ask in asks), default=(0.0, 0))
        began = _began(story, event)
        is_over = any(ask.kind == "end" and ask.ended != "Paused" and ask.ended_at < runs[0].began for ask in asks)
        temp = [] if is_over or event.invocation_id in story.retried else _temp(story, event.invocation_id)
        for run in runs if event.flow is None else ():
            saw = run.saw_first if run.saw_first is not None else {}
            others = {key for other in runs if other is not run for _, key, _ in other.wrote}
            for key, writes in shared.items() if saw else ():
                before = [each for each in writes if each[0] < asked or (each[1] == story.id and each[2] <= began)]
                allowed = [value for at, _, _, value in writes if before and at >= max(before)[0]]
                if before and key not in others and saw.get(key) not in allowed:
                    yield f"the tool of call {run.call_id} at {event.seq} saw {saw.get(key)} as {key}, and must see {allowed}"
            must = {key: value for seq, key, value in temp if seq <= began and key not in others}
            for key in {*must, *(each for each in saw if each.startswith("temp:") and temp)} if saw else ():
                later = [value for seq, each, value in temp if each == key and seq > began]
                if saw.get(key) not in (must.get(key), *later):
                    yield f"the tool of call {run.call_id} at {event.seq} saw {saw.get(key)} as {key}, and not {must.get(key)}"


def _shared(story: Story) -> Mapping[str, list[tuple[Moment, SessionId, int, Any]]]:
    """What was written into the state of the user and of the app: when it was stored, in which session, where, and the value."""
    writes: dict[str, list[tuple[Moment, SessionId, int, Any]]] = defaultdict(list)
    for session, log in story.history.stored.items():
        for event in log:
            for key, value in event.actions.state_delta.items():
                if key.startswith("app:") or (key.startswith("user:") and session[0] == story.id[0]):
                    writes[key].append((story.known(event), session, event.seq, value))
    return writes


def _temp(story: Story, turn: str) -> list[tuple[int, str, Any]]:
    """What was written into the `temp:` state of a turn: behind which event, and the value."""
    # Another request with its id may have come first, which it began with then.
    sent = [message.text for message in story.turns[turn].messages[:1]] if turn in story.turns else []
    asks = [ask for ask in story.of_turn(turn) if ask.begins and ask.message and ask.message.text in sent]
    given = [ask.given.get("state_delta", {}) for ask in asks][:1]
    found = [(0, key, value) for delta in given for key, value in delta.items() if key.startswith("temp:")]
    answers = story.turns[turn].answers if turn in story.turns else {}
    for run in story.history.tools:
        seqs = [event.seq for event, _ in answers.get(run.call_id, ()) if event.author != USER]
        found += [(seqs[0], key, value) for _, key, value in run.wrote if seqs and key.startswith("temp:")]
    return sorted(found, key=lambda each: each[0])


def _began(story: Story, event: Event) -> int:
    """The place in the log behind which the step of an event with calls began."""
    said = (each for each in story.whole if each.seq < event.seq and each.content and not each.steers)
    return max((each.seq for each in said if is_seen(each.branch, event.branch)), default=0)


def calls_see_each_other(story: Story) -> Iterator[str]:
    """5.6 Tools: the calls of one response have one state: each sees what the others have written so far.

    Of an agent that is a tool that is what it had written when its call ended. What was not stored is lost with the run, whose
    calls begin at the same time.
    """
    if story.changed_at < NEVER:
        return
    for event, runs in _responses(story):
        for run in runs:
            others = [each for each in runs if (each.process, each.began[0]) == (run.process, run.began[0])]
            wrote = sorted(each for other in others for each in other.wrote if each[0] < run.ended)
            must_see = {key: value for _, key, value in wrote}
            for other in others:
                must_see |= _plain(_by_agent(story, other.call_id)) if other.ended < run.ended else {}
            if lacks := {key for key, value in must_see.items() if _lacks(run.saw, key, value)}:
                yield f"the tool of call {run.call_id} at {event.seq} has not seen {sorted(lacks)}, which others had written"


def _responses(story: Story) -> Iterator[tuple[Event, list[ToolRun]]]:
    """The events with calls, each with the runs of its tools."""
    by_call: dict[str, list[ToolRun]] = defaultdict(list)
    for run in story.history.tools:
        by_call[run.call_id].append(run)
    for event in story.whole:
        if runs := [run for call in event.function_calls() for run in by_call.get(call.id or "", ())]:
            yield event, runs


def _by_agent(story: Story, call_id: str) -> Mapping[str, Any]:
    """What an agent has written that was asked by a call."""
    end = f":{call_id.replace('.', '_')}"
    return fold(event for event in story.whole if (event.branch or "").endswith(end))


def _lacks(saw: Mapping[str, Any] | None, key: str, value: Any) -> bool:
    return saw is not None and saw.get(key) != value


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if not key.startswith((*SHARED, "temp:"))}


TOOL_RULES = (state_is_seen, scopes_are_seen, calls_see_each_other)
