"""The order that models want (semantics.md 5.4): every call directly followed by one content with its responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import USER
from actors.messages.json_types import JsonObject
from actors.rules.prompt.compiler import Entry, content_of

IncludeContents = Literal["default", "none"]

NO_ANSWER: JsonObject = {"status": "there is no answer yet"}
"""The response of a call that waits, for models only: the log has none."""


def arrange(entries: Sequence[Entry]) -> list[Content]:
    """The contents of a request, oldest first.

    Every content with calls is directly followed by one content with the latest response to each. Calls without a response are
    left out unless they may wait: those have NO_ANSWER. When the newest entry is a late response, its call moves down to it, and
    what the agent itself said in between, in that turn, is left out.
    """
    responses = {call_id: response for entry in entries for call_id, response in entry.results().items()}
    contents: list[Content] = []
    for entry in _late_response_last(entries):
        append_contents(contents, entry, responses)
    return contents


def append_contents(contents: list[Content], entry: Entry, responses: Mapping[str, FunctionResponse]) -> None:
    """Append the content of an entry, then one with the responses to its calls.

    Args:
        responses: by call id; those to calls of other entries are ignored.
    """
    if not entry.calls:
        if entry.content is not None:
            contents.append(entry.content)
        return
    content = _without_open_calls(entry, responses)
    if content is None:
        return
    contents.append(content)
    if answers := [Part(function_response=_answer(call, responses)) for call in content.function_calls()]:
        contents.append(Content(role=USER, parts=answers))


def _without_open_calls(entry: Entry, responses: Mapping[str, FunctionResponse]) -> Content | None:
    content = entry.content
    if content is None or all(call_id in responses or call_id in entry.long_running for call_id in entry.calls):
        return content
    kept = [
        part
        for part in content.parts
        if part.function_call is None or part.function_call.id in responses or part.function_call.id in entry.long_running
    ]
    return content_of(content.role or "model", kept)


def _answer(call: FunctionCall, responses: Mapping[str, FunctionResponse]) -> FunctionResponse:
    found = responses.get(call.id or "")
    return FunctionResponse(id=call.id, name=call.name, response=NO_ANSWER) if found is None else found


def _late_response_last(entries: Sequence[Entry]) -> Iterable[Entry]:
    """The entries, with the calls that the newest entry answers moved to directly before it."""
    answered = set(entries[-1].results()) if entries else set()
    if not answered:
        return entries
    # Entries before the first such call stay where they are, so the search goes backwards and stops when all are found.
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
    """The contents that include_contents="none" shows: everything from the newest message of the user or of another agent on.

    If the slice holds a response to an earlier call, it begins with the message of the turn that made the call.
    """
    start = next((index for index in range(len(entries) - 1, -1, -1) if entries[index].opens), 0)
    # The entries that are added may hold responses to still earlier calls.
    while (asked := _newest_call_outside(entries, start)) is not None:
        start = turn_start(entries, asked)
    return entries[start:]


def _newest_call_outside(entries: Sequence[Entry], start: int) -> int | None:
    """The newest entry before `start` with a call that is answered at or after `start`; None when there is none."""
    called = {call_id for entry in entries[start:] for call_id in entry.calls}
    wanted = {response.id for entry in entries[start:] for response in entry.responses} - called
    if not wanted:
        return None
    return next((index for index in range(start - 1, -1, -1) if not wanted.isdisjoint(entries[index].calls)), None)


def turn_start(entries: Sequence[Entry], index: int) -> int:
    """The index of the first message of the user in the turn of the entry at `index`; `index` when it has none before.

    A turn that was paused has several messages.
    """
    invocation_id = entries[index].invocation_id
    for earlier in range(index):
        entry = entries[earlier]
        if entry.by_user and entry.opens and entry.invocation_id == invocation_id:
            return earlier
    return index
