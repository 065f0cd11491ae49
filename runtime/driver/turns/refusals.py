"""What a program remembers of turns that were refused, so that what would be refused as well does not leave it."""

from __future__ import annotations

import asyncio
import threading

from actors.errors import OverloadedError
from actors.messages.session import SessionKey
from actors.rules.capacity.refused_lines import Line, RefusedLines, lines_of
from runtime.driver.engine_client import EngineClient


class Refusals:
    """The refusals of one deployment. Its methods may be called from any thread.

    Args:
        client: knows the Runners, and the time by which their refusals hold.
    """

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._lines = RefusedLines()
        self._lock = threading.Lock()

    def ask(self, key: SessionKey) -> OverloadedError | None:
        """Why a new turn of a session is not to be asked for; None when it is. Raises RuntimeClosedError."""
        if not self._lines:
            return None
        with self._lock:
            return self._lines.ask(self._of(key), self._client.loop_time_s())

    def of_any_turn(self, *, again: bool) -> OverloadedError | None:
        """Why no new turn is to be asked for, of whichever session; None when one may be, and is. Raises RuntimeClosedError."""
        if not self._lines:
            return None
        with self._lock:
            return self._lines.let_through(self._client.engine.runner.count, self._client.loop_time_s(), again=again)

    def note(self, key: SessionKey, refusal: OverloadedError) -> None:
        """Remember that a turn of a session was refused. Called on the loop."""
        with self._lock:
            self._lines.refuse(self._of(key), refusal, asyncio.get_running_loop().time())

    def leave(self, key: SessionKey) -> None:
        """A turn of a session has begun, or could not."""
        if self._lines:
            with self._lock:
                self._lines.leave(self._of(key))

    def _of(self, key: SessionKey) -> tuple[Line, Line, Line]:
        return lines_of(self._client.engine.runner.number_of(key), key)
