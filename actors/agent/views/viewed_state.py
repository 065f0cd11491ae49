"""The state of a session, as an agent's actor last read it."""

from __future__ import annotations

from actors.messages.codec import decode
from actors.messages.json_types import JsonObject, StateDelta
from actors.messages.protocol.base import TurnRef


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
            turn: in which it was read.
            encoded: as MessagePack.
            state_seq: all changes up to this place of the log are in it.
        """
        self.value = decode(encoded, dict)
        self._read_in = (turn.invocation_id, turn.epoch)
        self.seq = state_seq
        return self.value

    def add_own(self, seq: int, before_seq: int, changed: StateDelta) -> None:
        """Take in an event of the agent's own.

        Args:
            seq: its place.
            before_seq: the place of the last change before it. If that one is not known here, the state has to be read again.
            changed: what it changes.
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
