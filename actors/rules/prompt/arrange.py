"""The order that models want (semantics.md 5.4): every call directly followed by one content with its responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import USER, Event
from actors.rules.prompt.compiler import Entry, _of_parts

IncludeContents = Literal["default", "none"]


class Decision(NamedTuple):
    """A call, what the user has answered to it, and what it was answered with by the agent, if that has been done."""

    call: FunctionCall
    answer: FunctionResponse
    settled: FunctionResponse | None


# ------------------------------------------------------------------------------------------------------- arrangement
def arrange(entries: Sequence[Entry]) -> list[Content]:
    """The contents of a request, oldest first.

    Every call is directly followed by one content with the latest answer to each; calls without an answer are left
    out unless they are long-running. When the newest entry is a late answer, its call moves down to it, and what the agent
    itself said in that turn in between goes.
    """
    answers = {response.id: response for entry in entries for response in entry.responses if response.id}
    contents: list[Content] = []
    for entry in _late_answer_last(entries):
        _put(contents, entry, answers)
    return contents


def _put(contents: list[Content], entry: Entry, answers: Mapping[str, FunctionResponse]) -> None:
    if not entry.calls:
        if entry.content is not None:
            contents.append(entry.content)
        return
    answered = [answers[call_id] for call_id in entry.calls if call_id in answers]
    content = _without_open_calls(entry, answers)
    if content is not None:
        contents.append(content)
    if answered:
        contents.append(Content(role=USER, parts=[Part(function_response=response) for response in answered]))


def _without_open_calls(entry: Entry, answers: Mapping[str, FunctionResponse]) -> Content | None:
    content = entry.content
    if content is None or all(call_id in answers or call_id in entry.long_running for call_id in entry.calls):
        return content
    kept = [
        part
        for part in content.parts
        if part.function_call is None or part.function_call.id in answers or part.function_call.id in entry.long_running
    ]
    return _of_parts(content.role or "model", kept)


def _late_answer_last(entries: Sequence[Entry]) -> Iterable[Entry]:
    """The entries, with the calls that the newest one answers moved to directly before it."""
    answered = {response.id for response in entries[-1].responses} if entries else set()
    if not answered:
        return entries
    # Only entries from the first such call on can move, so the loop may stop there: walk backwards until all are found.
    asked: list[int] = []
    for index in range(len(entries) - 1, -1, -1):
        if not answered.isdisjoint(entries[index].calls):
            asked.append(index)
            answered.difference_update(entries[index].calls)
            if not answered:
                break
    if not asked or asked == [len(entries) - 2]:
        return entries
    first = asked[-1]
    moved = [entries[index] for index in reversed(asked)]
    asked_in = {entries[index].invocation_id: index for index in asked}
    kept = [
        entry
        for index, entry in enumerate(entries[first:-1], start=first)
        if index not in asked and not (entry.own and asked_in.get(entry.invocation_id, index) < index)
    ]
    return [*entries[:first], *kept, *moved, entries[-1]]


def latest_slice(entries: Sequence[Entry]) -> Sequence[Entry]:
    """What include_contents="none" shows: from the newest event of the user or of another agent on.

    An answer in it whose call stands further up takes the slice back to the message of the turn that made the call.
    """
    start = next((index for index in range(len(entries) - 1, -1, -1) if entries[index].opens), 0)
    # What comes in at the front may hold answers to calls still further up.
    while (asked := _newest_call_outside(entries, start)) is not None:
        start = _start_of_turn(entries, asked)
    return entries[start:]


def _newest_call_outside(entries: Sequence[Entry], start: int) -> int | None:
    """The newest entry before `start` with a call that is answered behind it; None when there is none."""
    shown = {call_id for entry in entries[start:] for call_id in entry.calls}
    wanted = {response.id for entry in entries[start:] for response in entry.responses} - shown
    if not wanted:
        return None
    return next((index for index in range(start - 1, -1, -1) if not wanted.isdisjoint(entries[index].calls)), None)


def _start_of_turn(entries: Sequence[Entry], asked: int) -> int:
    """Where the turn of the entry at `asked` was opened by a message of the user: its first, a paused turn has several."""
    invocation_id = entries[asked].invocation_id
    for index in range(asked):
        entry = entries[index]
        if entry.by_user and entry.opens and entry.invocation_id == invocation_id:
            return index
    return asked


def _ids(event: Event) -> set[str]:
    return {call.id for call in event.function_calls() if call.id}
