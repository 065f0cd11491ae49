"""What an agent sees of the log (semantics.md 5.4): events compiled to the contents of a model request.

Two steps. `Compiler` turns one event after the other into an `Entry`: filtered, and told from the agent's point of view.
`arrange` puts entries into the order that models want: every call directly followed by one response. `History` does the same
step by step: a new event costs the same however long the log is. Only a late answer, which changes what stands
further up, makes it arrange everything anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.messages.content import Content, FunctionResponse
from actors.messages.event import Event
from actors.rules.prompt.arrange import Decision, IncludeContents, _ids, _put, _start_of_turn, arrange, latest_slice
from actors.rules.prompt.compiler import Compiler, Entry, Warn

WAITED_FOR = 1_000
"""Entries behind which a call that waits for its answer is forgotten where only the latest contents are kept."""


class History:
    """The compiled log of one session for one agent on one branch, kept up to date event by event.

    For an agent with include_contents="none" it need not hold more than the latest slice: see `keep_latest`.
    """

    def __init__(self, agent: str, branch: str | None = None, warn: Warn | None = None) -> None:
        self._compiler = Compiler(agent, branch, warn)
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
