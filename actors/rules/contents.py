"""What an agent sees of the log (semantics.md 5.4): events compiled to the contents of a model request.

Two steps. `Compiler` turns one event after the other into an `Entry`: filtered, and told from the agent's point of view.
`arrange` puts entries into the order that models want: every call directly followed by one response. `View` does the same
step by step: a new event costs the same however long the log is. Only a late answer, which changes what stands
further up, makes it arrange everything anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import USER, Event
from actors.rules.transfer import TRANSFER_TOOL

logger = logging.getLogger(__name__)

WAITED_FOR = 1_000
"""Entries behind which a call that waits for its answer is forgotten where only the latest contents are kept."""

FOREIGN_MARK = "For context:"
"""The first part of every content that tells what another agent did."""

IncludeContents = Literal["default", "none"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event as one agent sees it.

    Attributes:
        content: what is shown in its place, without the agent's own function responses; None when that is nothing.
        own: the agent made it.
        calls: ids of the agent's own calls in it, "" for one that has none and can never be answered.
        long_running: those of `calls` that may stay unanswered.
        responses: answers in it to the agent's own calls.
        opens: it may begin the slice of include_contents="none".
    """

    invocation_id: str
    content: Content | None
    own: bool = False
    by_user: bool = False
    calls: tuple[str, ...] = ()
    long_running: frozenset[str] = frozenset()
    responses: tuple[FunctionResponse, ...] = ()
    opens: bool = False


TOOL_MARK = "@"
"""Begins the last segment of the branch on which an agent runs that is asked as a tool."""


def tool_branch(branch: str | None, agent: str, call_id: str) -> str:
    """The branch on which the agent runs that `agent`, itself on `branch`, asks by that call."""
    segment = f"{TOOL_MARK}{agent}:{call_id.replace('.', '_')}"
    return f"{branch}.{segment}" if branch else segment


def tool_root(branch: str | None) -> str | None:
    """The innermost tool branch that `branch` is on or below; None outside of any."""
    if not branch or TOOL_MARK not in branch:
        return None
    segments = branch.split(".")
    while segments and not segments[-1].startswith(TOOL_MARK):
        segments.pop()
    return ".".join(segments) or None


def is_below_branch(branch: str | None, above: str) -> bool:
    """True when `branch` is `above` or begins with it, by dotted path."""
    return branch is not None and (branch == above or branch.startswith(above + "."))


class Decision(NamedTuple):
    """A call, what the user has answered to it, and what it was answered with by the agent, if that has been done."""

    call: FunctionCall
    answer: FunctionResponse
    settled: FunctionResponse | None


def is_visible(event_branch: str | None, branch: str | None) -> bool:
    """True when an event of `event_branch` belongs to what is seen on `branch`.

    It is the same, or an ancestor by dotted path, or one of them is empty. A tool branch is a world of its own: nobody
    outside sees what is on or below it, and who is there sees nothing of outside.
    """
    if tool_root(event_branch) != tool_root(branch):
        return False
    if not event_branch or not branch or event_branch == branch:
        return True
    return branch.startswith(event_branch + ".")


class Compiler:
    """Turns events into entries, in the order of the log, for one agent on one branch."""

    def __init__(self, agent: str, branch: str | None = None) -> None:
        self._agent = agent
        self._branch = branch
        self.own_calls: set[str] = set()
        self._others_calls: set[str] = set()

    def entry(self, event: Event) -> Entry | None:
        """The event as the agent sees it; None when it does not."""
        content = event.content
        if content is None or event.partial or content.is_empty() or not is_visible(event.branch, self._branch):
            return None
        if event.author == self._agent:
            return self._own(event, content)
        if event.author == USER:
            return self._user(event, content)
        return self._foreign(event, content)

    def _own(self, event: Event, content: Content) -> Entry | None:
        calls = tuple(call.id or "" for call in content.function_calls())
        self.own_calls.update(filter(None, calls))
        self._others_calls.difference_update(calls)
        responses, others = self._sorted(content)
        return Entry(
            invocation_id=event.invocation_id,
            content=_of_parts(content.role or "model", others),
            own=True,
            calls=calls,
            long_running=frozenset(event.long_running_tool_ids),
            responses=responses,
        )

    def _user(self, event: Event, content: Content) -> Entry:
        responses, others = self._sorted(content)
        return Entry(
            invocation_id=event.invocation_id,
            content=_of_parts(USER, others),
            by_user=True,
            responses=responses,
            opens=any(part.function_response is None for part in content.parts),
        )

    def _sorted(self, content: Content) -> tuple[tuple[FunctionResponse, ...], list[Part]]:
        """The answers to own calls; and what else there is, others' answers quoted and answers to nothing dropped."""
        responses: list[FunctionResponse] = []
        others: list[Part] = []
        for part in content.parts:
            response = part.function_response
            if response is None:
                others.append(part)
            elif response.id in self._others_calls:
                others.append(quote(USER, part))
            elif response.id in self.own_calls:
                responses.append(response)
            else:
                logger.warning("agent %r: dropped the response %r, which answers no call that it sees", self._agent, response.id)
        return tuple(responses), others

    def _foreign(self, event: Event, content: Content) -> Entry | None:
        self._others_calls.update(call.id for call in content.function_calls() if call.id)
        told = [quote(event.author, part) for part in content.parts if is_told(part)]
        if not told:
            return None
        is_transfer = event.actions.transfer_to_agent is not None or any(
            call.name == TRANSFER_TOOL for call in content.function_calls()
        )
        is_transfer = is_transfer or any(response.name == TRANSFER_TOOL for response in content.function_responses())
        return Entry(
            invocation_id=event.invocation_id,
            content=Content(role=USER, parts=[Part(text=FOREIGN_MARK), *told]),
            opens=not is_transfer,
        )


def _of_parts(role: str, parts: list[Part]) -> Content | None:
    content = Content(role=role, parts=parts)
    return None if content.is_empty() else content


def is_told(part: Part) -> bool:
    """True when others are told of it: it is no thought, and more than its model's signature."""
    return not part.thought and bool(part.text or not part.carries_only_text())


def quote(author: str, part: Part) -> Part:
    """What another did, told in words. Images and the like stay as they are."""
    if part.function_call is not None:
        call = part.function_call
        return Part(text=f"[{author}] called tool `{call.name}` with parameters: {_json(call.args)}")
    if part.function_response is not None:
        response = part.function_response
        return Part(text=f"[{author}] `{response.name}` tool returned result: {_json(response.response)}")
    if part.text:
        return Part(text=f"[{author}] said: {part.text}")
    # A signature means something only to the model that made it.
    return msgspec.structs.replace(part, thought_signature=None) if part.thought_signature else part


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


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


class View:
    """The compiled log of one session for one agent on one branch, kept up to date event by event.

    For an agent with include_contents="none" it need not hold more than the latest slice: see `keep_latest`.
    """

    def __init__(self, agent: str, branch: str | None = None) -> None:
        self._compiler = Compiler(agent, branch)
        self._entries: list[Entry] = []
        # By hash, which takes half the room; should two turns have the same, the log is read once more than needed.
        self._cut_turns: set[int] = set()
        self._is_odd = False
        self._contents: list[Content] = []
        self._settled = 0
        self._is_arranged = True

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, event: Event) -> None:
        """Take in the next event of the log."""
        reused = not self._compiler.own_calls.isdisjoint(_ids(event)) if event.content is not None else False
        self._is_odd = self._is_odd or reused
        entry = self._compiler.entry(event)
        if entry is None:
            return
        before = self._entries[-1] if self._entries else None
        self._entries.append(entry)
        if not self._is_arranged:
            return
        if reused or (entry.calls and entry.responses):
            # No agent makes such an event, but a log may have been imported: what it changes further up is arranged anew.
            self._is_arranged = False
        elif entry.responses:
            self._answer(before, entry)
        else:
            self._settled = len(self._contents)
            _put(self._contents, entry, {})

    def _answer(self, before: Entry | None, entry: Entry) -> None:
        answers = {response.id: response for response in entry.responses if response.id}
        if before is None or not set(answers) <= set(before.calls):
            self._is_arranged = False
            return
        del self._contents[self._settled :]
        _put(self._contents, before, answers)
        if entry.content is not None:
            self._contents.append(entry.content)

    def contents(self, include: IncludeContents = "default") -> list[Content]:
        """The contents of a request, oldest first: equal to what `arrange` gives for the whole log."""
        if include == "none":
            return arrange(latest_slice(self._entries))
        if self._is_arranged:
            return list(self._contents)
        if self._entries[-1].responses:
            return arrange(self._entries)
        self._contents = arrange(self._entries)
        self._settled = len(self._contents)
        self._is_arranged = not self._entries[-1].calls
        return list(self._contents)

    # ------------------------------------------------------------------------------------------------- a part of it
    def keep_latest(self) -> None:
        """Forget what include_contents="none" does not show, but for turns that wait for answers and are not old.

        From then on `contents` answers for "none" only, and `lacks` tells when something is needed that was forgotten.
        """
        if self._is_odd or not self._entries:
            return
        start = len(self._entries) - len(latest_slice(self._entries))
        given = {response.id for entry in self._entries for response in entry.responses}
        for index in range(max(0, len(self._entries) - WAITED_FOR), start):
            if self._entries[index].long_running - given:
                start = min(start, _start_of_turn(self._entries, index))
                break
        if start > 0:
            self._cut_turns.update(hash(entry.invocation_id) for entry in self._entries[:start])
            del self._entries[:start]
            self._contents = []
            self._is_arranged = False

    def lacks(self, answered: Iterable[str | None]) -> bool:
        """True when the log has to be read anew, for something was forgotten that is needed.

        Args:
            answered: the calls for which `still_open` or `decided` will be asked.
        """
        if not self._cut_turns:
            return False
        if self._is_odd:
            # A call has the id of one that may be among what was forgotten.
            return True
        known = {call_id for entry in self._entries for call_id in entry.calls}
        shown = latest_slice(self._entries)
        wanted = {response.id for entry in shown for response in entry.responses}
        wanted.update(self._compiler.own_calls.intersection(call_id for call_id in answered if call_id))
        if not wanted <= known:
            return True
        # An answer takes the slice back, behind the newest entry that opens one, to where its call's turn began: which may have
        # been before what is kept.
        is_taken_back = any(entry.opens for entry in shown[1:])
        return is_taken_back and any(hash(entry.invocation_id) in self._cut_turns for entry in shown)

    def still_open(self, answered: Iterable[str | None]) -> tuple[str, ...]:
        """The long-running calls that were made together with one of the `answered` and have no answer yet, in order."""
        ids = {call_id for call_id in answered if call_id}
        if not ids:
            return ()
        given = {response.id for entry in self._entries for response in entry.responses}
        together = [entry for entry in self._entries if not ids.isdisjoint(entry.calls)]
        return tuple(call_id for entry in together for call_id in entry.calls if call_id in entry.long_running - given)

    def decided(self, answered: Iterable[str | None]) -> list[Decision]:
        """What the user has answered to the agent's calls that were made together with one of the `answered`, in order."""
        ids = {call_id for call_id in answered if call_id}
        if not ids:
            return []
        by_user: dict[str | None, FunctionResponse] = {}
        by_agent: dict[str | None, FunctionResponse] = {}
        for entry in self._entries:
            (by_user if entry.by_user else by_agent).update((response.id, response) for response in entry.responses)
        together = [entry.content for entry in self._entries if not ids.isdisjoint(entry.calls) and entry.content is not None]
        calls = [call for content in together for call in content.function_calls()]
        return [Decision(call, by_user[call.id], by_agent.get(call.id)) for call in calls if call.id in by_user]

    def has_call(self, call_id: str) -> bool:
        """True when the agent has made a call with that id in what is seen."""
        return call_id in self._compiler.own_calls


def _ids(event: Event) -> set[str]:
    return {call.id for call in event.function_calls() if call.id}
