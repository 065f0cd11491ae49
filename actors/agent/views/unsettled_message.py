"""The message of a turn at the end of a view, while nothing says that it is on disk."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from actors.messages.protocol.base import TurnRef

SETTLING_S = 0.25
"""How long the run of an earlier turn may take to hear that its first event is on disk, once the next turn has begun."""


class UnsettledMessage:
    """Knows of which turn and epoch the message is, and whether its run may still hear what has become of it."""

    def __init__(self) -> None:
        self._of: tuple[str, int] | None = None
        self._is_running = False
        self._told: asyncio.Event | None = None

    def is_of_another(self, turn: TurnRef) -> bool:
        """Whether there is one, of another turn or epoch."""
        return self._of is not None and self._of != (turn.invocation_id, turn.epoch)

    def follow(self, turn: TurnRef) -> None:
        """The view ends with the message of a turn, which may not be on disk."""
        self._of, self._is_running = (turn.invocation_id, turn.epoch), True

    async def end_doubt(self, turn: TurnRef) -> None:
        """Before a run of a turn: wait for what the run of an earlier turn is about to hear.

        The driver has heard of the last event of that turn, and begins the next one, while the reply to the event waits in a
        socket of this process. A view that is given up for that costs as much as its log is long.
        """
        if self._is_running and self._of is not None and self._of[0] != turn.invocation_id:
            self._told = self._told or asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), SETTLING_S)

    def settle(self, turn: TurnRef) -> None:
        """The message of a turn is on disk. That says nothing of the message of another one, which has come since."""
        if not self.is_of_another(turn):
            self.forget()

    def end_run(self, turn: TurnRef) -> None:
        """A run of a turn is over, and hears nothing more."""
        if not self.is_of_another(turn):
            self._end_waiting()

    def forget(self) -> None:
        """The message is on disk, or no longer in the view."""
        self._of = None
        self._end_waiting()

    def _end_waiting(self) -> None:
        self._is_running = False
        if self._told is not None:
            self._told.set()
            self._told = None
