"""The state of a session, as an agent's actor last read it."""

from __future__ import annotations

from actors.messages.codec import decode
from actors.messages.json_types import JsonObject
from actors.messages.protocol.base import TurnRef
from actors.messages.protocol.log import Fetched


class ViewedState:
    """All scopes of the state by prefixed keys, and in which turn they were read alone.

    Attributes:
        value: the state that was read last.
    """

    def __init__(self) -> None:
        self.value: JsonObject = {}
        # The turn and its epoch in which the state was read, and the last change that is in it.
        self._read_in: tuple[str, int] | None = None
        self._seq = 0

    def read(self, turn: TurnRef, fetched: Fetched) -> JsonObject:
        """Take in the state alone, and return it."""
        self.value = decode(fetched.state, dict)
        self._read_in = (turn.invocation_id, turn.epoch)
        self._seq = fetched.state_seq
        return self.value

    def change(self, seq: int, before_seq: int) -> None:
        """The agent has changed the state itself.

        Args:
            seq: the place of the change.
            before_seq: the place of the last change before it. If that is not known here, the state has to be read again.
        """
        self._seq = seq if before_seq == self._seq else -1

    def is_current(self, turn: TurnRef, state_seq: int) -> bool:
        """True if the state was read in this turn, and the last known change, at `state_seq`, is in it.

        A state that was read in another turn may be outdated: other sessions change the user's and the app's state.
        """
        return self._read_in == (turn.invocation_id, turn.epoch) and state_seq <= self._seq
