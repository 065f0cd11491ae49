"""What a program remembers of turns that were refused or have not begun, so that what would be refused does not leave it."""

from __future__ import annotations

import asyncio
import threading

from actors.errors import OverloadedError
from actors.messages.limits import DEFAULT_LIMITS
from actors.messages.session import SessionKey
from runtime.driver.engine_client import EngineClient
from runtime.driver.turns.asked_turns import AskedTurns
from runtime.driver.turns.refused_lines import Line, RefusedLines, lines_of
from runtime.driver.turns.state import TurnState


class Refusals:
    """The refusals of one deployment. Its methods may be called from any thread.

    Args:
        client: knows the Runners and how many turns may wait there, and the time by which their refusals hold.
    """

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._lines = RefusedLines()
        self._asked = AskedTurns()
        # True while a line is remembered: most programs are refused nothing, or were long ago.
        self._knows_lines = False
        self._lock = threading.Lock()

    def ask(self, turn: TurnState) -> OverloadedError | None:
        """Why a new turn is not to be asked for; None when it is, and counts until it has left. Raises RuntimeClosedError."""
        runner, now_s = self._client.engine.runner.number_of(turn.key), self._client.loop_time_s()
        with self._lock:
            refusal = self._asked.refusal(runner, self._most(), now_s)
            if self._knows_lines and refusal is None:
                refusal = self._lines.ask(lines_of(runner, turn.key), now_s)
                self._knows_lines = len(self._lines) > 0
            if refusal is None:
                self._asked.add(turn, runner, now_s)
            return refusal

    def of_any_turn(self, *, again: bool, unread: int) -> OverloadedError | None:
        """Why no new turn is to be asked for, of whichever session; None when one may be, and is. Raises RuntimeClosedError.

        Args:
            again: it was told None before, and has not been asked for yet.
            unread: requests for other turns that were told None, and will ask before it.
        """
        runners, now_s = self._client.engine.runner.count, self._client.loop_time_s()
        with self._lock:
            refusal = self._asked.refusal_of_any(unread, runners, self._most(), now_s, again=again)
            if self._knows_lines and refusal is None:
                refusal = self._lines.let_through(runners, now_s, again=again)
            return refusal

    def note(self, turn: TurnState, refusal: OverloadedError) -> None:
        """Remember that a turn was refused. Called on the loop."""
        with self._lock:
            self._asked.discard(turn)
            self._knows_lines = True
            self._lines.refuse(self._of(turn.key), refusal, asyncio.get_running_loop().time())

    def leave(self, turn: TurnState, *, makes_room: bool = True) -> None:
        """A turn has begun, or could not.

        Args:
            makes_room: it was in the line of its Runner.
        """
        with self._lock:
            self._asked.discard(turn)
            if self._knows_lines and makes_room:
                self._lines.leave(self._of(turn.key))

    def _most(self) -> int:
        """The number of turns that may wait in the line of a Runner."""
        settings = self._client.engine.settings
        return settings.max_waiting_turns if settings is not None else DEFAULT_LIMITS.max_waiting_turns

    def _of(self, key: SessionKey) -> tuple[Line, Line, Line]:
        return lines_of(self._client.engine.runner.number_of(key), key)
