"""What an agent's actor remembers of one session between turns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from actors.agent.views.first_sights import EVENT_OVERHEAD, FirstSight, FirstSights, SightKey
from actors.messages import typed
from actors.messages.codec import decode_event
from actors.messages.event import Event
from actors.messages.json_types import JsonObject, StateDelta
from actors.messages.protocol.base import StoredEvent, TurnRef
from actors.messages.protocol.log import Fetched
from actors.messages.protocol.runs import Invoke
from actors.rules.delivery.handover_events import following
from actors.rules.prompt.compiler import Warn
from actors.rules.prompt.history import History

logger = logging.getLogger(__name__)

_state: Callable[[bytes], JsonObject] = typed.decoder(dict).decode

MakeHistory = Callable[[str, str | None, Warn], History]
"""Makes an empty history for an agent on a branch; warnings about the log go to the function given."""


class ViewedState:
    """All scopes of the state by prefixed keys, and in which turn they were read alone.

    Attributes:
        value: the state that was read last.
        seq: all changes up to this place of the log are in it; below 0: the state has to be read again.
    """

    def __init__(self) -> None:
        self.value: JsonObject = {}
        # The turn and its epoch in which the state was read, and the place up to which all changes are in it.
        self._read_in: tuple[str, int] | None = None
        self.seq = 0

    def take(self, turn: TurnRef, encoded: bytes, state_seq: int) -> JsonObject:
        """Take in the state, and return it.

        Args:
            state_seq: all changes up to this place of the log are in it.
        """
        self.value = typed.decode(encoded, dict)
        self._read_in = (turn.invocation_id, turn.epoch)
        self.seq = state_seq
        return self.value

    def add_own(self, seq: int, before_seq: int, changed: StateDelta) -> None:
        """Take in an event of the agent's own.

        Args:
            before_seq: the place of the last change before it. If that one is not known here, the state has to be read again.
        """
        if before_seq > self.seq:
            self.seq = -1
        elif changed and seq > self.seq:
            # A run that began before this state was read has another copy.
            self.value.update(changed)
            self.seq = seq

    def forget(self) -> None:
        """A run was stopped, and may have changed the state without hearing that it is stored: the state has to be read again."""
        self._read_in = None

    def is_current(self, turn: TurnRef, state_seq: int) -> bool:
        """True if the state was read in this turn, and the last known change, at `state_seq`, is in it.

        A state that was read in another turn may be outdated: other sessions change the user's and the app's state.
        """
        return self._read_in == (turn.invocation_id, turn.epoch) and state_seq <= self.seq


class AgentView:
    """The compiled log of a session up to the event `seq`, and the session's state as it was last read.

    Args:
        make: makes the history of an agent on a branch that the log is compiled to.
        latest_only: the agent sees only the latest contents, so no more is kept between runs.
        sights: what the agents of the process have compiled for each other, and what the view sees its log from; None: it has no
            part in that.

    Attributes:
        seq: the last event taken in.
        generation: of the log, which a rewind changes.
    """

    def __init__(
        self,
        agent: str,
        branch: str | None,
        make: MakeHistory = History,
        *,
        latest_only: bool = False,
        sights: tuple[FirstSights, SightKey] | None = None,
    ) -> None:
        self._agent = agent
        self._branch = branch
        self._make = make
        self._latest_only = latest_only
        self._sights = sights
        self._is_first_reading = False
        self._keeps_all = False
        self._begins_after = 0
        self._size = 0
        self.seq = 0
        self.generation = ""
        self.history = make(agent, branch, logger.warning)
        self.state = ViewedState()

    @property
    def _is_new(self) -> bool:
        return not (self.seq or self.generation)

    def begin_reading(self) -> None:
        """Before the log is fetched after `seq`: an agent that is new to it begins with what another one has compiled."""
        self._is_first_reading = self._is_new
        if not self._is_first_reading or self._sights is None:
            return
        sights, key = self._sights
        if (seen := sights.find(key)) is not None and (
            history := seen.history.for_newcomer(self._agent, logger.warning)
        ) is not None:
            self.history, self.seq, self.generation, self._size = history, seen.seq, seen.generation, seen.size

    def end_reading(self) -> None:
        """After the log was fetched: the next agent that is new to it may begin with it, unless this one has spoken."""
        if self._is_first_reading and self._sights is not None:
            sights, key = self._sights
            if (history := self.history.for_newcomer("")) is not None:
                sights.keep(key, FirstSight(history, self.seq, self.generation, self._size))
        self._is_first_reading = False

    def skip_before(self, stored: StoredEvent, generation: str) -> None:
        """Leave out everything before an event."""
        self.seq = self._begins_after = stored.seq - 1
        self.generation = generation

    def begin_again(self) -> None:
        """Forget everything, so that the log is read again, and keep all of it until the run is over."""
        self._clear()
        self.seq = self._begins_after
        self._keeps_all = True

    def end_run(self) -> None:
        """Keep only what the next run will need."""
        self._keeps_all = False
        self._drop_unseen()

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        return self._size + EVENT_OVERHEAD * len(self.history)

    def take_in(self, fetched: Fetched) -> None:
        """Take in a page of new events; after a rewind, everything from the log's start."""
        if fetched.generation != self.generation:
            self._clear()
            self.generation = fetched.generation
            self.seq = self._begins_after = 0
        for stored in fetched.events:
            # A run whose turn has ended may have taken in its last event while another run fetched the same one.
            if stored.seq > self.seq:
                self._add(stored)
        if not self._keeps_all:
            # A long log comes in pages: no more than one of them is ever held.
            self._drop_unseen()
        self.state.value = _state(fetched.state)

    def follow(self, message: Invoke, user_event: Event | None = None) -> bool:
        """Take in all that a message which is fresh brings of the log, and the state. False when something is missing before it.

        Args:
            user_event: the event of the message, if it was decoded already.
        """
        turn = message.turn
        events: Sequence[StoredEvent] | None = (message.user_event,)
        if message.before or message.after or message.user_event.seq != self.seq + 1:
            events = following([*message.before, message.user_event, *message.after], self.seq)
        if events is None or not (self._is_new or self.generation == turn.generation):
            return False
        self.generation = turn.generation
        for stored in events:
            if user_event is not None and stored is message.user_event:
                self._take(user_event, len(stored.raw))
            else:
                self._add(stored)
        self.state.value = _state(message.state)
        return True

    def add_own(self, event: Event, size: int) -> bool:
        """Take in an event of the agent's own, of `size` bytes; False if it is not the next one."""
        if event.seq != self.seq + 1:
            return False
        self._take(event, size)
        return True

    def _add(self, stored: StoredEvent) -> None:
        self._take(decode_event(stored.raw, stored.seq), len(stored.raw))

    def _take(self, event: Event, size: int) -> None:
        self.seq = event.seq
        if self.history.add(event):
            self._size += size

    def _drop_unseen(self) -> None:
        if self._latest_only and (entries := len(self.history)):
            self.history.keep_latest()
            # Which of the entries were the large ones is not known.
            self._size = self._size * len(self.history) // entries

    def _clear(self) -> None:
        self.history = self._make(self._agent, self._branch, logger.warning)
        self._size = 0
