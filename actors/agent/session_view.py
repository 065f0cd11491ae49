"""What an agent's actor remembers of one session between turns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from actors.messages.codec import decode, decode_event
from actors.messages.event import Event
from actors.messages.protocol.base import StoredEvent, TurnRef
from actors.messages.protocol.log import Fetched
from actors.rules.prompt.compiler import Warn
from actors.rules.prompt.history import History

logger = logging.getLogger(__name__)

MakeHistory = Callable[[str, str | None, Warn], History]
"""Makes an empty history for an agent on a branch; warnings about the log go to the function given."""

EVENT_OVERHEAD = 500
"""Bytes that a compiled event takes beside what it has on the wire, by measurement."""


class SessionView:
    """The compiled log of a session up to place `seq`, and the session's state as last told.

    Attributes:
        seq: the last event taken in.
        generation: which log that was.
        state: all scopes by prefixed keys.

    Args:
        make: what the log is compiled with.
        latest_only: the agent sees no more than the latest contents, so no more is kept.
    """

    def __init__(self, agent: str, branch: str | None, make: MakeHistory = History, *, latest_only: bool = False) -> None:
        self._agent = agent
        self._branch = branch
        self._make = make
        self._latest_only = latest_only
        self._is_whole = False
        self._begins_behind = 0
        self._size = 0
        self.seq = 0
        self.generation = ""
        self.view = make(agent, branch, logger.warning)
        self.state: dict[str, Any] = {}
        self._state_of: tuple[str, int] | None = None
        self._state_seq = 0

    def begin_before(self, stored: StoredEvent, generation: str) -> None:
        """Leave out everything before that event."""
        self.seq = self._begins_behind = stored.seq - 1
        self.generation = generation

    def begin_anew(self) -> None:
        """Something is needed that was not kept: the log has to be read again, and all of it kept until the run is over."""
        self._clear()
        self.seq = self._begins_behind
        self._is_whole = True

    def rest(self) -> None:
        """The run is over: keep what the next one will need."""
        self._is_whole = False
        self._cut()

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        return self._size + EVENT_OVERHEAD * len(self.view)

    def take_in(self, fetched: Fetched) -> None:
        """Take in what is new, or everything anew after a rewind."""
        if fetched.generation != self.generation:
            self._clear()
            self.generation = fetched.generation
            self.seq = self._begins_behind = 0
        for stored in fetched.events:
            self._add(stored)
        if not self._is_whole:
            # A long log comes in pages: no more than one of them is ever held.
            self._cut()
        self.state = decode(fetched.state, dict)

    def can_follow(self, stored: StoredEvent, generation: str) -> bool:
        """True when the event is the next one."""
        return self.seq == stored.seq - 1 and self.generation == generation

    def follow(self, stored: StoredEvent, state: bytes) -> None:
        """Take in the next event, with the state as it is behind it."""
        self._add(stored)
        self.state = decode(state, dict)

    def add_own(self, event: Event, size: int) -> bool:
        """Take in an event of the agent's own, of so many bytes, if it is the next one."""
        if event.seq != self.seq + 1:
            return False
        self._take(event, size)
        return True

    def read_state(self, turn: TurnRef, fetched: Fetched) -> dict[str, Any]:
        """Take in the state alone, and return it."""
        self.state = decode(fetched.state, dict)
        self._state_of = (turn.invocation_id, turn.epoch)
        self._state_seq = fetched.state_seq
        return self.state

    def changed_state(self, seq: int, before_seq: int) -> None:
        """The agent has changed the state itself, at place `seq`; before that it had been changed at `before_seq`."""
        self._state_seq = seq if before_seq == self._state_seq else -1

    def knows_state(self, turn: TurnRef, state_seq: int) -> bool:
        """True when the state was read in this turn, and nobody is known to have changed it behind that.

        Of another turn it says nothing: other sessions may have changed the user's state, and the app's, since.
        """
        return self._state_of == (turn.invocation_id, turn.epoch) and state_seq <= self._state_seq

    def _add(self, stored: StoredEvent) -> None:
        self._take(decode_event(stored.raw, stored.seq), len(stored.raw))

    def _take(self, event: Event, size: int) -> None:
        entries = len(self.view)
        self.view.add(event)
        self.seq = event.seq
        if len(self.view) > entries:
            self._size += size

    def _cut(self) -> None:
        if self._latest_only and (entries := len(self.view)):
            self.view.keep_latest()
            # Which of them were the large ones is not known.
            self._size = self._size * len(self.view) // entries

    def _clear(self) -> None:
        self.view = self._make(self._agent, self._branch, logger.warning)
        self._size = 0
