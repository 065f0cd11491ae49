"""How one agent sees the log (semantics.md 5.4): each event filtered, and quoted where another agent made it; then all of them in
the order that models want, every call directly followed by one content with its responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import USER, Event
from actors.messages.graph import is_of_tool
from actors.messages.json_types import JsonObject
from actors.rules.checks.questions import asks_credential, scope_of
from actors.rules.routing.branches import TOOL_MARK, call_segment, is_visible
from actors.rules.routing.transfer import TRANSFER_TOOL

FOREIGN_MARK = "For context:"
"""The first part of every content that quotes another agent."""


IncludeContents = Literal["default", "none"]

NO_ANSWER: JsonObject = {"status": "there is no answer yet"}
"""The response of a call that waits, for models only: the log has none."""


Warn = Callable[[str], None]
"""Takes a warning about the log, one sentence; for instance the `warning` method of a logger."""


def is_of_conversation(event: Event) -> bool:
    """True for an event that agents in the conversation with the user see, and for a summary."""
    return (
        not event.partial
        and event.flow is None
        and event.actions.agent_state is None
        and (event.branch is None or TOOL_MARK not in event.branch)
    )


def place_of(event: Event) -> int:
    """The place of an event in the log; 0 for one that no summary covers, whatever places it names."""
    return event.seq if is_of_conversation(event) else 0


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event as one agent sees it.

    Attributes:
        invocation_id: the turn of the event.
        content: the event's content as the model is shown it, without responses to the agent's own calls; None when that is
            empty.
        own: the agent made the event.
        by_user: the user made the event.
        calls: ids of the agent's own calls in it; "" stands for a call without an id, which can never be answered.
        long_running: those of `calls` that may stay without a response.
        responses: responses in it to the agent's own calls.
        decided: the calls that the user has only decided on, or answered a question of: that is not what came of them.
        opens: the slice of include_contents="none" may begin here.
        seq: the place of the event in the log; 0 for one that no summary covers.
    """

    invocation_id: str
    content: Content | None
    own: bool = False
    by_user: bool = False
    calls: tuple[str, ...] = ()
    long_running: frozenset[str] = frozenset()
    responses: tuple[FunctionResponse, ...] = ()
    decided: frozenset[str] = frozenset()
    opens: bool = False
    seq: int = 0

    def results(self) -> Mapping[str, FunctionResponse]:
        """The responses that say what came of a call, by its id."""
        return {response.id: response for response in self.responses if response.id and response.id not in self.decided}


class Compiler:
    """Turns events into entries, in the order of the log, for one agent on one branch.

    Args:
        agent: the agent that sees the log.
        branch: its branch; None outside of any.
        warn: called for every function response that is dropped; None ignores them.

    Attributes:
        own_calls: ids of all calls that the agent has made so far.
        speakers: the agents, itself included, of which it was given events that it sees.
    """

    def __init__(self, agent: str, branch: str | None = None, warn: Warn | None = None) -> None:
        self._agent = agent
        self._branch = branch
        self._warn = warn
        self.own_calls: set[str] = set()
        self.speakers: set[str] = set()
        self._others_calls: set[str] = set()
        # Calls of delegates, and of those below them. Responses of the user to these are for them.
        self._unseen_calls: set[str] = set()
        # Ids of calls as they stand in branches, where these are others.
        self._renamed: set[str] = set()
        self._dropped: list[str | None] = []
        # Calls of any agent, that need the user's consent or have asked the user something.
        self._asking: set[str] = set()

    def for_newcomer(self, agent: str, warn: Warn | None) -> Compiler:
        """One that goes on from here for another agent, when neither has spoken: until then both see the same."""
        made = type(self)(agent, self._branch, warn)
        made.speakers, made._others_calls = self.speakers.copy(), self._others_calls.copy()
        made._unseen_calls, made._renamed = self._unseen_calls.copy(), self._renamed.copy()
        made._asking = self._asking.copy()
        for response in self._dropped:
            made._drop(response)
        return made

    def entry(self, event: Event) -> Entry | None:
        """The event as the agent sees it; None when the agent does not see it."""
        content = event.content
        if event.actions.requested_tool_confirmations or event.actions.requested_inputs or self._asking:
            self._note_asking(event)
        if content is None or event.partial or content.is_empty():
            return None
        if event.branch != self._branch and not is_visible(event.branch, self._branch):
            return None
        if event.long_running_tool_ids and asks_credential(event):
            self._unseen_calls.update(call.id for call in content.function_calls() if call.id)
            return None
        if event.node_info is not None and self._is_of_delegate(event):
            self._unseen_calls.update(call.id for call in content.function_calls() if call.id)
            return None
        if event.node_info is not None and is_of_tool(event.node_info.path):
            return None
        if event.author == self._agent:
            return self._own(event, content)
        if event.author == USER:
            return self._user(event, content)
        return self._other_agents(event, content)

    def has_call(self, call_id: str) -> bool:
        """True when an agent has made a call with that id, whether this one sees it or not."""
        return any(call_id in calls for calls in (self.own_calls, self._others_calls, self._unseen_calls))

    def _note_asking(self, event: Event) -> None:
        self._asking.difference_update(call.id for call in event.function_calls() if call.id)
        self._asking.update(event.actions.requested_tool_confirmations, event.actions.requested_inputs)

    def _is_of_delegate(self, event: Event) -> bool:
        """True for what an agent says that works for a call, and for what the user says to it: the call has its result only."""
        if event.author == USER:
            return True
        segments = (segment.partition("@")[2] for segment in (event.branch or "").split("."))
        return any(each in calls for each in segments if each for calls in (self.own_calls, self._others_calls, self._renamed))

    def _own(self, event: Event, content: Content) -> Entry:
        self.speakers.add(event.author)
        if _only_speaks(content) and not event.long_running_tool_ids:
            said = _in_role(content.role or "model", content)
            return Entry(invocation_id=event.invocation_id, content=said, own=True, seq=place_of(event))
        calls = tuple(call.id or "" for call in content.function_calls())
        self.own_calls.update(filter(None, calls))
        if calls:
            self._note_renamed(calls)
            self._others_calls.difference_update(calls)
        responses, others = self._split_responses(content)
        return Entry(
            invocation_id=event.invocation_id,
            content=content_of(content.role or "model", others),
            own=True,
            calls=calls,
            long_running=frozenset(event.long_running_tool_ids),
            responses=responses,
            seq=place_of(event),
        )

    def _user(self, event: Event, content: Content) -> Entry:
        if _only_speaks(content):
            said = _in_role(USER, content)
            opens = not event.steers
            return Entry(invocation_id=event.invocation_id, content=said, by_user=True, opens=opens, seq=place_of(event))
        responses, others = self._split_responses(content)
        return Entry(
            invocation_id=event.invocation_id,
            content=content_of(USER, others),
            by_user=True,
            responses=responses,
            decided=frozenset(response.id for response in responses if response.id in self._asking),
            opens=any(part.function_response is None for part in content.parts),
            seq=place_of(event),
        )

    def _note_renamed(self, calls: Iterable[str]) -> None:
        self._renamed.update(segment for call in calls if (segment := call_segment(call)) != call)

    def _split_responses(self, content: Content) -> tuple[tuple[FunctionResponse, ...], list[Part]]:
        """The responses to own calls; and the other parts.

        Among the latter, responses to other agents' calls are quoted, unless the user has only decided on them. Responses to
        calls that the agent does not see are dropped.
        """
        responses: list[FunctionResponse] = []
        others: list[Part] = []
        for part in content.parts:
            response = part.function_response
            if response is None:
                others.append(part)
            elif scope_of(response.id) and response.id not in self.own_calls:
                continue
            elif response.id in self._others_calls:
                if response.id not in self._asking:
                    others.append(quote(USER, part))
            elif response.id in self.own_calls:
                responses.append(response)
            elif response.id not in self._unseen_calls:
                self._drop(response.id)
        return tuple(responses), others

    def _drop(self, response: str | None) -> None:
        self._dropped.append(response)
        if self._warn is not None:
            self._warn(f"agent {self._agent!r}: dropped the response {response!r}, which answers no call that it sees")

    def _other_agents(self, event: Event, content: Content) -> Entry | None:
        self.speakers.add(event.author)
        calls = [call.id for call in content.function_calls() if call.id]
        if calls:
            self._others_calls.update(calls)
            self._note_renamed(calls)
        quoted = [quote(event.author, part) for part in content.parts if self._is_quoted(event, part)]
        if not quoted:
            return None
        return Entry(
            invocation_id=event.invocation_id,
            content=Content(role=USER, parts=[Part(text=FOREIGN_MARK), *quoted]),
            opens=not _is_transfer(event, content),
            seq=place_of(event),
        )

    def _is_quoted(self, event: Event, part: Part) -> bool:
        """True when the agent is shown this part of another agent's event: no thought, no bare signature, and no question
        about a budget."""
        asked = part.function_call or part.function_response
        if asked is not None and scope_of(asked.id):
            return False
        return not part.thought and bool(part.text or not part.carries_only_text())


def _only_speaks(content: Content) -> bool:
    """True when a content has no calls and no responses: nothing of it is split off or quoted."""
    # No generator: this is asked of every event.
    for part in content.parts:  # noqa: SIM110
        if part.function_call is not None or part.function_response is not None:
            return False
    return True


def _in_role(role: str, content: Content) -> Content:
    """The content with a role: itself, if it has that."""
    return content if content.role == role else Content(role=role, parts=content.parts)


def _is_transfer(event: Event, content: Content) -> bool:
    return (
        event.actions.transfer_to_agent is not None
        or any(call.name == TRANSFER_TOOL for call in content.function_calls())
        or any(response.name == TRANSFER_TOOL for response in content.function_responses())
    )


def content_of(role: str, parts: list[Part]) -> Content | None:
    """A content of these parts; None when they say nothing."""
    content = Content(role=role, parts=parts)
    return None if content.is_empty() else content


def quote(author: str, part: Part) -> Part:
    """Tell in words what another agent or the user did; images and other data stay as they are."""
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
