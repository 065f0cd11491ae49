"""What an agent sees of the log (semantics.md 5.4): events compiled to the contents of a model request.

There are two steps. `Compiler` turns each event into an `Entry`: filtered, and quoted where another agent made it. `arrange`
puts entries into the order that models want: every call directly followed by its responses. `History` does both step by step, so
that a new event costs the same however long the log is. Only a late response, which changes earlier contents, makes it arrange
everything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol, Self

import msgspec

from actors.messages.content import Content, FunctionCall, FunctionResponse
from actors.messages.event import Event, EventCompaction, RequestedInput
from actors.rules.checks.questions import scope_of, without_questions
from actors.rules.prompt.compiler import (
    Compiler,
    Entry,
    IncludeContents,
    Warn,
    append_contents,
    arrange,
    is_of_conversation,
    latest_slice,
    turn_start,
)
from actors.rules.routing.branches import TOOL_MARK
from actors.rules.routing.pending import is_interim

WAITED_FOR = 1_000
"""Number of newest entries in which `keep_latest` looks for calls that still wait for a response."""


class UserReply(NamedTuple):
    """A call of the agent, and what has come for it.

    Attributes:
        by_user: the user's response.
        by_agent: the agent's own response; None when there is none yet.
        asked: what the tool has asked the user in the middle of the call, if that is what the user has responded to.
    """

    call: FunctionCall
    by_user: FunctionResponse
    by_agent: FunctionResponse | None
    asked: RequestedInput | None = None


class LogLedger(Protocol):
    """What a feature folds of a log that an agent sees."""

    def add(self, event: Event) -> None:
        """Take in the next event of the log."""
        ...

    def copy(self) -> Self:
        """Another one that goes on from here."""
        ...


class History:
    """The compiled log of one session for one agent on one branch, brought up to date event by event.

    For an agent with include_contents="none" it need not hold more than the latest slice: see `keep_latest`.

    Args:
        agent: the agent that sees the log.
        branch: its branch; None outside of any.
        warn: called for every function response that is dropped; None ignores them.

    Attributes:
        ledger: what a feature folds of the log; None where none does.
    """

    compiler: ClassVar[type[Compiler]] = Compiler

    def __init__(self, agent: str, branch: str | None = None, warn: Warn | None = None) -> None:
        self._agent = agent
        self._branch = branch
        self._compiler = self.compiler(agent, branch, warn)
        self._entries: list[Entry] = []
        # By hash, which takes half the memory. Two turns with the same hash only cost one more reading of the log.
        self._cut_turns: set[int] = set()
        self._has_reused_ids = False
        self._has_questions = False
        # By call: questions of tools to the user, until the call has a result; and the calls whose question has no answer.
        self._asked: dict[str, RequestedInput] = {}
        self._unanswered: set[str] = set()
        # Calls that wait for the user, also long-running ones with an interim response: the turn of each.
        self._waiting: dict[str, str] = {}
        # Valid while _is_arranged: the contents of all entries, and where those of the newest entry with any begin; -1: unknown.
        self._contents: list[Content] = []
        self._newest_start = 0
        self._is_arranged = True
        self._summaries: Summaries | None = None
        self.ledger: LogLedger | None = None

    def for_newcomer(self, agent: str, warn: Warn | None = None) -> History | None:
        """The same log for another agent, which shares what is compiled; this one stays as it is.

        Args:
            warn: called for every function response that was dropped, and will be.

        Returns:
            None when one of both agents has spoken in it: they see it differently.
        """
        speakers = self._compiler.speakers
        if self._agent in speakers or agent in speakers:
            return None
        made = type(self)(agent, self._branch, warn)
        made._compiler = self._compiler.for_newcomer(agent, warn)
        # What else is kept is about the agent's own calls, of which there is none.
        made._entries, made._contents = self._entries.copy(), self._contents.copy()
        made._newest_start, made._is_arranged = self._newest_start, self._is_arranged
        made._cut_turns = self._cut_turns.copy()
        made._summaries = self._summaries.copy() if self._summaries is not None else None
        made.ledger = self.ledger.copy() if self.ledger is not None else None
        return made

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, event: Event) -> bool:
        """Add the next event of the log. Returns whether the agent sees it."""
        if self.ledger is not None:
            self.ledger.add(event)
        if event.actions.compaction is not None:
            self._summarise(event)
            return False
        is_reused = False
        if own_calls := self._compiler.own_calls:
            is_reused = any(call.id in own_calls for call in event.function_calls())
            self._has_reused_ids = self._has_reused_ids or is_reused
        entry = self._compiler.entry(event)
        if self._asked or event.actions.requested_inputs:
            self._note_inputs(event, entry)
        if entry is None:
            return False
        if self._waiting or entry.calls:
            self._note_waiting(event, entry)
        if self._summaries is not None and entry.responses and (again := self._summaries.brought_back(entry)):
            self._entries += again
            self._is_arranged = False
        self._entries.append(entry)
        if not self._is_arranged:
            return True
        results = entry.results()
        if is_reused or (entry.calls and results):
            # No agent makes such an event, but a log may have been imported. It can change any earlier content.
            self._is_arranged = False
        elif results:
            self._add_responses(entry)
        elif entry.calls or entry.content is not None:
            self._newest_start = len(self._contents)
            append_contents(self._contents, entry, {})
        return True

    def _summarise(self, event: Event) -> None:
        """Put a summary in place of what it covers."""
        if not is_of_conversation(event) or (self._branch is not None and TOOL_MARK in self._branch):
            return
        self._summaries = self._summaries or Summaries()
        self._entries = self._summaries.put(event, self._entries)
        self._is_arranged = False

    def _note_inputs(self, event: Event, entry: Entry | None) -> None:
        """Take in what tools ask the user in the middle of calls, and what ends the waiting for an answer."""
        if self._asked and entry is not None:
            for response in entry.responses:
                self._unanswered.discard(response.id or "")
                if not entry.by_user:
                    self._asked.pop(response.id or "", None)
        self._hold(event.actions.requested_inputs)
        for call_id, asked in event.actions.requested_inputs.items():
            if call_id in self._compiler.own_calls:
                self._asked[call_id] = asked
                self._unanswered.add(call_id)
                self._waiting[call_id] = event.invocation_id

    def _hold(self, asking: Mapping[str, RequestedInput]) -> None:
        """Have calls wait that have asked the user something: when they were made, they were not known to."""
        places = range(len(self._entries) - 1, -1, -1) if asking else ()
        place = next((each for each in places if not asking.keys().isdisjoint(self._entries[each].calls)), None)
        if place is not None:
            entry = self._entries[place]
            waiting = entry.long_running.union(asking.keys() & set(entry.calls))
            self._entries[place] = msgspec.structs.replace(entry, long_running=waiting)
            self._is_arranged = False

    def _note_waiting(self, event: Event, entry: Entry) -> None:
        """Take in calls that are long-running or need consent, and the responses that end their waiting."""
        for response in entry.responses:
            if entry.by_user or not is_interim(response.response):
                self._waiting.pop(response.id or "", None)
        for call_id in entry.calls:
            self._has_questions = self._has_questions or bool(scope_of(call_id))
            if call_id in entry.long_running:
                self._waiting[call_id] = event.invocation_id

    def _add_responses(self, entry: Entry) -> None:
        # The results of one response may have come in several events.
        place = len(self._entries) - 2
        while place >= 0 and self._entries[place].content is None and not self._entries[place].calls:
            place -= 1
        before = self._entries[place] if place >= 0 else None
        responses = {call_id: found for each in self._entries[place + 1 :] for call_id, found in each.results().items()}
        if self._newest_start < 0 or before is None or not responses.keys() <= set(before.calls):
            self._is_arranged = False
            return
        del self._contents[self._newest_start :]
        append_contents(self._contents, before, responses)
        if entry.content is not None:
            self._contents.append(entry.content)

    def contents(self, include: IncludeContents = "default") -> list[Content]:
        """The contents of a request, oldest first; the same that `arrange` gives for the whole log.

        Questions about budgets are left out, and so are the answers.
        """
        contents = self._all_contents(include)
        return without_questions(contents) if self._has_questions else contents

    def _all_contents(self, include: IncludeContents) -> list[Content]:
        if include == "none":
            return arrange(latest_slice(self._entries))
        if self._is_arranged:
            return list(self._contents)
        if self._entries[-1].results():
            return arrange(self._entries)
        self._contents = arrange(self._entries)
        self._newest_start = -1
        self._is_arranged = True
        return list(self._contents)

    def keep_latest(self) -> None:
        """Drop the entries that include_contents="none" does not show, except recent turns that wait for a response.

        From then on `contents` may be called with "none" only, and `lacks` says when dropped entries are needed again.
        """
        if self._has_reused_ids or not self._entries:
            return
        start = len(self._entries) - len(latest_slice(self._entries))
        given = {response.id for entry in self._entries for response in entry.responses}
        for index in range(max(0, len(self._entries) - WAITED_FOR), start):
            if self._entries[index].long_running - given:
                start = min(start, turn_start(self._entries, index))
                break
        if start > 0:
            self._cut_turns.update(hash(entry.invocation_id) for entry in self._entries[:start])
            del self._entries[:start]
            self._contents = []
            self._is_arranged = False

    @property
    def is_cut(self) -> bool:
        """True when `keep_latest` has dropped entries."""
        return bool(self._cut_turns)

    def lacks(self, answered: Iterable[str | None]) -> bool:
        """True when entries are needed that `keep_latest` dropped, so that the log has to be read again.

        Args:
            answered: the calls for which `still_open` or `user_replies` will be asked.
        """
        if not self._cut_turns:
            return False
        if self._has_reused_ids:
            # A dropped entry may hold a call with the same id.
            return True
        known = {call_id for entry in self._entries for call_id in entry.calls}
        latest = latest_slice(self._entries)
        wanted = {response.id for entry in latest for response in entry.responses}
        wanted.update(self._compiler.own_calls.intersection(call_id for call_id in answered if call_id))
        if not wanted <= known:
            return True
        # A response may extend the slice back to the beginning of its call's turn, which may have been dropped.
        is_extended = any(entry.opens for entry in latest[1:])
        return is_extended and any(hash(entry.invocation_id) in self._cut_turns for entry in latest)

    def still_open(self, answered: Iterable[str | None]) -> tuple[str, ...]:
        """Ids of the calls that wait for the user and were made together with one of the `answered`, in order."""
        ids = {call_id for call_id in answered if call_id}
        if not ids:
            return ()
        given = {response.id for entry in self._entries for response in entry.responses}
        together = [entry for entry in self._entries if not ids.isdisjoint(entry.calls)]
        return tuple(
            call_id
            for entry in together
            for call_id in entry.calls
            if call_id in self._unanswered or call_id in entry.long_running - given
        )

    def waiting(self, invocation_id: str) -> tuple[str, ...]:
        """Ids of the agent's calls of a turn that the user has not answered, also long-running ones with an interim response."""
        return tuple(call_id for call_id, turn in self._waiting.items() if turn == invocation_id)

    def held_calls(self, invocation_id: str) -> list[FunctionCall]:
        """The agent's calls of a turn that it has not run, since it had to ask for more of a budget first, in order."""
        entries = [entry for entry in self._entries if entry.own and entry.invocation_id == invocation_id]
        asked = max((place for place, entry in enumerate(entries) if any(map(scope_of, entry.calls))), default=0)
        before = next((entry for entry in reversed(entries[:asked]) if entry.calls), None)
        if before is None or before.content is None:
            return []
        given = {response.id for entry in entries for response in entry.responses}
        left = [call for call in before.content.function_calls() if call.id not in given | before.long_running]
        return [call for call in left if call.id not in self._unanswered and not scope_of(call.id)]

    def user_replies(self, answered: Iterable[str | None]) -> list[UserReply]:
        """The user's replies to the agent's calls that were made together with one of the `answered`, in order.

        Empty when the agent has answered all of them since: a later run of it in the same turn has nothing to do for them.
        """
        ids = {call_id for call_id in answered if call_id}
        if not ids:
            return []
        by_user: dict[str | None, FunctionResponse] = {}
        by_agent: dict[str | None, FunctionResponse] = {}
        settled: set[str | None] = set()
        for entry in self._entries:
            for response in entry.responses:
                if entry.by_user:
                    by_user[response.id] = response
                    settled.discard(response.id)
                else:
                    by_agent[response.id] = response
                    settled.add(response.id)
        together = [entry.content for entry in self._entries if not ids.isdisjoint(entry.calls) and entry.content is not None]
        calls = [call for content in together for call in content.function_calls()]
        replied = [call for call in calls if call.id in by_user]
        if all(call.id in settled for call in replied):
            return []
        return [UserReply(call, by_user[call.id], by_agent.get(call.id), self._asked.get(call.id or "")) for call in replied]

    def message_of(self, invocation_id: str) -> Content | None:
        """The user's message that began a turn, as the agent is shown it; None where it is not shown it, or not any more."""
        found = None
        for entry in reversed(self._entries):
            if entry.invocation_id == invocation_id and entry.by_user and entry.opens:
                found = entry.content
            elif found is not None and entry.invocation_id != invocation_id:
                break
        return found

    def has_call(self, call_id: str) -> bool:
        """True when an agent has made a call with that id."""
        return self._compiler.has_call(call_id)


def covers(outer: EventCompaction, inner: EventCompaction) -> bool:
    """True when a summary covers all that another one does."""
    return outer.start_seq <= inner.start_seq and inner.end_seq <= outer.end_seq


class Summaries:
    """The summaries that stand in one compiled log.

    A long-running call may be covered together with what its tool has said so far, while the answer is still to come. Such calls
    are set aside, and come back with the answer: no model takes a result without its call.
    """

    def __init__(self) -> None:
        self._standing: list[tuple[EventCompaction, Entry]] = []
        # By call: the entry that makes it, and those with results of calls that were made together with it.
        self._aside: dict[str, list[Entry]] = {}

    def copy(self) -> Summaries:
        """Another one that goes on from here."""
        made = Summaries()
        made._standing, made._aside = self._standing.copy(), self._aside.copy()
        return made

    def put(self, event: Event, entries: Sequence[Entry]) -> list[Entry]:
        """The entries with the summary of an event in place of what it covers; the same ones if another summary covers more."""
        compaction = event.actions.compaction
        assert compaction is not None
        if any(covers(known, compaction) and not covers(compaction, known) for known, _ in self._standing):
            return list(entries)
        replaced = {id(entry) for known, entry in self._standing if covers(compaction, known)}
        left_standing = [pair for pair in self._standing if id(pair[1]) not in replaced]
        summaries = {id(entry) for _, entry in left_standing}
        kept: list[Entry] = []
        covered: list[Entry] = []
        for entry in entries:
            is_inside = compaction.start_seq <= entry.seq <= compaction.end_seq and id(entry) not in summaries
            if id(entry) not in replaced:
                (covered if is_inside else kept).append(entry)
        self._set_aside(covered)
        content = compaction.compacted_content
        summary = Entry(invocation_id=event.invocation_id, content=content, seq=compaction.end_seq)
        self._standing = [*left_standing, (compaction, summary)]
        place = next((index for index, entry in enumerate(kept) if entry.seq > compaction.end_seq), len(kept))
        return [*kept[:place], summary, *kept[place:]]

    def _set_aside(self, covered: Sequence[Entry]) -> None:
        for entry in covered:
            if entry.long_running:
                calls = set(entry.calls)
                results = [other for other in covered if any(response.id in calls for response in other.responses)]
                self._aside.update((call_id, [entry, *results]) for call_id in entry.calls)

    def brought_back(self, entry: Entry) -> list[Entry]:
        """The entries that were set aside and belong before this one, since it answers a call in them."""
        found: list[Entry] = []
        for response in entry.responses:
            for other in self._aside.get(response.id or "", ()):
                for call_id in other.calls:
                    self._aside.pop(call_id, None)
                found.append(msgspec.structs.replace(other, seq=entry.seq))
        return found
