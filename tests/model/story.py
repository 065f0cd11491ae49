"""A session as its log tells it: the turns with their messages, calls and answers, the state, and what was taken back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from actors import Event, FunctionCall, FunctionResponse
from tests.model.history import NEVER, Ask, Found, History, Moment, SessionId

USER = "user"
SHARED = ("app:", "user:")
CANCELLED = {"error": "cancelled"}


class Turn:
    """One turn as the log tells it.

    Attributes:
        id: the invocation id.
        events: in the order of the log, all that were stored.
        messages: those of the user: the one that begins the turn, and answers.
    """

    def __init__(self, invocation_id: str) -> None:
        self.id = invocation_id
        self.events: list[Event] = []
        self.messages: list[Event] = []

    @cached_property
    def calls(self) -> Mapping[str, tuple[Event, FunctionCall]]:
        """The calls by their ids, with the events that make them."""
        return {call.id or "": (event, call) for event in self.events for call in event.function_calls()}

    @cached_property
    def answers(self) -> Mapping[str, Sequence[tuple[Event, FunctionResponse]]]:
        """The responses to each call, of agents and of the user."""
        found = defaultdict(list)
        for event in self.events:
            for response in event.function_responses():
                found[response.id or ""].append((event, response))
        return found

    def opener(self, event: Event) -> Event | None:
        """The message after which an event of the turn comes."""
        return next((message for message in reversed(self.messages) if message.seq < event.seq), None)


class Story:
    """One session: its log, and what programs have asked of it.

    Attributes:
        id: the user, and the session's id.
        found: what a fresh reader finds.
        log: what it shows.
        whole: the same with events that were taken back, where the history has them.
        turns: by id, in the order in which they began; without those that were begun anew after they were gone.
        asks: of this session, in real order.
    """

    def __init__(self, history: History, session: SessionId) -> None:
        self.history = history
        self.id = session
        self.found = history.found.get(session, Found())
        self.log = self.found.log
        self.whole: Sequence[Event] = history.stored.get(session) or self.log
        self.asks = [ask for ask in history.asks if (ask.user, ask.session) == session]
        self.turns: dict[str, Turn] = {}
        for event in self.whole:
            if takes_back(event):
                continue
            turn = self.turns.setdefault(event.invocation_id, Turn(event.invocation_id))
            turn.events.append(event)
            if is_message(event):
                turn.messages.append(event)
        for turn_id in self._begun_anew():
            self.turns.pop(turn_id, None)

    def _begun_anew(self) -> Iterator[str]:
        """The turns that were taken back or deleted and were asked for again: their id names several, of which no rule tells."""
        lives = [self.whole, *(events for session, events in self.history.removed if session == self.id)]
        logs = [[each for each in log if is_message(each) and not list(each.function_responses())] for log in lives]
        # A message that was deleted and sent again has the same id in both lives.
        gone = {each.invocation_id for each in logs[0] if each.id not in self.shown}
        gone |= {each.invocation_id for log in logs[1:] for each in log}
        begun = Counter(each.invocation_id for log in logs for each in log)
        yield from (turn for turn in gone if begun[turn] > 1)

    @cached_property
    def shown(self) -> frozenset[str]:
        """The ids of the events that are shown."""
        return frozenset(event.id for event in self.log)

    @cached_property
    def retried(self) -> frozenset[str]:
        """The turns that were asked to go on without a message, also before a fork has copied them."""
        asks = [ask for ask in self.history.asks if (ask.user, ask.session) in {self.id, *self._sources}]
        return frozenset(ask.turn for ask in asks if ask.what == "retry" and ask.kind != "refusal")

    @cached_property
    def deletions(self) -> Sequence[Ask]:
        """What may have deleted it, with other sessions or alone."""
        of_user = (ask for ask in self.history.asks if ask.user in (self.id[0], "") and ask.session in (self.id[1], ""))
        return [ask for ask in of_user if ask.what in ("delete", "prune", "users.delete")]

    @cached_property
    def changed_at(self) -> Moment:
        """When a program first asked for something that may take events back; NEVER: none did."""
        takes = (ask for ask in self.asks if ask.what == "rewind" or "from_event" in ask.given)
        moments = [ask.began for ask in (*self.deletions, *takes)]
        moments += [at for at, fault in self.history.faults if fault == "store goes back"]
        return min(moments, default=NEVER)

    @cached_property
    def _by_turn(self) -> Mapping[str, list[Ask]]:
        found = defaultdict(list)
        for ask in self.asks:
            found[ask.turn].append(ask)
        return found

    @cached_property
    def first_state(self) -> Mapping[str, Any]:
        """With which the session was created."""
        made = [ask.given.get("state") for ask in self.asks if ask.what == "create" and ask.kind == "done"]
        return (made[-1] if made else None) or {}

    @cached_property
    def copied(self) -> frozenset[str]:
        """The ids of events that a fork has copied."""
        logs = [Story(self.history, source).whole for source in self._sources]
        logs += [events for session, events in self.history.removed if session in self._sources]
        return frozenset(event.id for log in logs for event in log)

    @cached_property
    def is_whole(self) -> bool:
        """It is known what was stored: the store tells, or nothing was taken back, also where this was copied from."""
        stories = [self, *(Story(self.history, source) for source in self._sources)]
        return self.whole is not self.log or all(story.changed_at == NEVER for story in stories)

    @cached_property
    def _forks(self) -> Sequence[Ask]:
        """What may have made it as a fork."""
        return [ask for ask in self.history.asks if ask.what == "fork" and (ask.user, ask.given.get("fork_id")) == self.id]

    @cached_property
    def _sources(self) -> frozenset[SessionId]:
        """The sessions of which it may be a fork."""
        return frozenset((ask.user, ask.session) for ask in self._forks) - {self.id}

    def of_turn(self, turn: str) -> list[Ask]:
        """The asks about a turn."""
        return self._by_turn.get(turn, [])

    def known(self, event: Event) -> Moment:
        """From when on an event is known to be stored."""
        return self.history.known.get(event.id, NEVER)

    def was_here(self, event: Event) -> Moment:
        """From when on an event is known to be in this session: all of a fork come with the request that makes it, or later."""
        return max([self.known(event), *(ask.ended_at for ask in self._forks if ask.kind != "refusal")])


def is_message(event: Event) -> bool:
    """True for a user's message that begins a turn, or answers. A question to an agent that is a tool has a branch."""
    return event.author == USER and event.branch is None and event.content is not None and not read_by(event)


def read_by(event: Event) -> str:
    """The agent that has read a message while it was at work; "" for any other event."""
    return str((event.custom_metadata or {}).get("steered", ""))


def takes_back(event: Event) -> bool:
    """True for the event of a rewind, or of a retry from an event."""
    return event.actions.rewind_before_invocation_id is not None or "raygrove:reset" in (event.custom_metadata or {})


def is_seal(event: Event) -> bool:
    """True for the responses that a cancelled turn gives to calls that have none."""
    responses = list(event.function_responses())
    return event.author != USER and bool(responses) and all(response.response == CANCELLED for response in responses)


def fold(log: Iterable[Event], first: Mapping[str, Any] = {}) -> dict[str, Any]:
    """The state that the changes in a log make. A key that is set to None is gone."""
    state = dict(first)
    for event in log:
        state.update(event.actions.state_delta)
    return without_none(state)


def without_none(state: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that have a value."""
    return {key: value for key, value in state.items() if value is not None}


def seqs(events: Iterable[Event]) -> list[int]:
    """Their positions."""
    return [event.seq for event in events]


def by_agents(events: Iterable[Event]) -> Iterator[Event]:
    """What readers of a turn get: all but what users have said."""
    return (event for event in events if event.author != USER)
