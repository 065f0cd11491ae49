"""What tools see of the state (docs/semantics.md sections 5.6 and 6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from actors import Event
from tests.model.history import NEVER, ToolRun
from tests.model.shown import is_seen
from tests.model.story import SHARED, Story, fold


def state_is_seen(story: Story) -> Iterator[str]:
    """6 State: what an agent writes is seen at once by all agents of the turn: a tool sees what was written before its step.

    That began behind what was said on its branch before, messages aside that agents have read while the turn ran. What agents
    side by side write meanwhile may be seen or not.
    """
    if story.changed_at < NEVER:
        return
    for event, runs in _responses(story):
        said = (each for each in story.whole if each.seq < event.seq and each.content and not each.steers)
        began = max((each.seq for each in said if is_seen(each.branch, event.branch)), default=0)
        before = _plain(fold((each for each in story.whole if each.seq <= began), story.first_state))
        written = {key for each in story.whole if each.seq > began for key in each.actions.state_delta}
        written |= {key for run in runs for _, key, _ in run.wrote}
        for run in runs if event.flow is None else ():
            unseen = {key for key, value in before.items() if _lacks(run.saw_first, key, value)}
            if lacks := unseen - written:
                yield f"the tool of call {run.call_id} at {event.seq} has not seen {sorted(lacks)}, which was written before"


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


TOOL_RULES = (state_is_seen, calls_see_each_other)
