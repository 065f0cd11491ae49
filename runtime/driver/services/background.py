"""The background service: `rt.background` and `rt.aio.background`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from actors.interfaces.clock import WallClock
from actors.layers.background.client import SessionRuns
from actors.layers.background.messages import Wanted
from actors.messages.background import BackgroundRun
from actors.rules.checks import user_message as messages
from actors.rules.checks.ids import checked_known_key
from runtime.driver.arguments import checked_choice
from runtime.driver.user_message import to_content
from runtime.driver.waits import M, RuntimeService, waits

Runs = list[BackgroundRun]
"""Background runs; the service has a method `list`."""


class BackgroundService(RuntimeService[M]):
    """Agents that work on in the background, beside the session in which they were started."""

    @waits
    async def list(self, user_id: str, session_id: str) -> Runs:
        """The runs that were started in a session, in their order. Raises InvalidIdError, StoreError."""
        return list(await self._of(user_id, session_id).list())

    @waits
    async def get(self, user_id: str, session_id: str, run: str) -> BackgroundRun:
        """A run. Raises RunNotFoundError, InvalidIdError, StoreError."""
        [found] = await self._of(user_id, session_id).list([run])
        return found

    @waits
    async def wait(
        self, user_id: str, session_id: str, runs: Sequence[str] = (), *, wanted: Wanted = "all", timeout_s: float = 3_600.0
    ) -> Runs:
        """Wait until runs have ended, and return them as they are then.

        Args:
            runs: their ids; empty: all of the session.
            wanted: whether to wait for all of them, or for any.
            timeout_s: seconds to wait at most.

        Raises:
            RunNotFoundError: one is not there.
            InvalidIdError, RequestError: an argument is wrong.
            StoreError: the store failed.
        """
        checked_choice("wanted", wanted, ("any", "all"))
        return list(await self._of(user_id, session_id).wait(runs, wanted, timeout_s, hears=False))

    @waits
    async def steer(self, user_id: str, session_id: str, run: str, message: Any) -> BackgroundRun:
        """Leave a message for the agent of a run, which reads it before its next model call.

        Args:
            message: see `Runtime.run`.

        Raises:
            RunNotFoundError: it is not there.
            RequestError: it has ended.
            InvalidIdError, InvalidMessageError: an argument is wrong.
            StoreError: it could not be stored.
        """
        content = messages.checked(to_content(message))
        return await self._of(user_id, session_id).steer(run, content, f"steer-{uuid.uuid4().hex}")

    @waits
    async def cancel(self, user_id: str, session_id: str, run: str) -> BackgroundRun:
        """Have a run cancelled, and those that it has started. It may run on for a moment.

        Raises RunNotFoundError, InvalidIdError, StoreError.
        """
        return await self._of(user_id, session_id).cancel(run)

    def _of(self, user_id: str, session_id: str) -> SessionRuns:
        key = checked_known_key(self._client.app_name, user_id, session_id)
        return SessionRuns(self._client.session, key, WallClock())
