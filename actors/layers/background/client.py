"""The background runs of one session, for the tools and custom agents that run in it, and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import RequestError
from actors.interfaces.access import Start
from actors.interfaces.clock import Clock
from actors.layers.background.messages import AskParent, CancelRun, FindRuns, StartRun, SteerRun, Wanted
from actors.messages.content import Content
from actors.messages.session import SessionKey, digest, run_of
from actors.messages.turn_info import BackgroundRun
from actors.refs import SessionRef

LONGEST_WAIT_S = 20.0
"""So long one request waits."""


class SessionRuns:
    """Implements `BackgroundAccess`."""

    def __init__(self, session: SessionRef, key: SessionKey, clock: Clock) -> None:
        self._session = session
        self._key = key
        self._clock = clock

    async def start(self, start: Start) -> BackgroundRun:
        """Start a run: see BackgroundAccess."""
        request = StartRun(
            key=self._key,
            invocation_id=start.invocation_id,
            run=start.id,
            agent=start.agent,
            started_by=start.started_by,
            content=start.content,
            options=start.options,
            config=start.config,
        )
        return (await self._session.ask(request)).runs[0]

    async def list(self, runs: Sequence[str] = (), *, heard_by: str = "") -> Sequence[BackgroundRun]:
        """Runs of these ids, or all: see FindRuns. Raises RunNotFoundError, StoreError."""
        return (await self._session.ask(FindRuns(key=self._key, runs=runs, heard_by=heard_by))).runs

    async def wait(self, runs: Sequence[str], wanted: Wanted, timeout_s: float, *, heard_by: str = "") -> Sequence[BackgroundRun]:
        """Wait for runs, and return them as they are then. Raises RunNotFoundError, StoreError."""
        until_s = self._clock.now_s() + timeout_s
        while True:
            left_s = max(0.0, until_s - self._clock.now_s())
            wait_s = min(left_s, LONGEST_WAIT_S)
            request = FindRuns(key=self._key, runs=runs, wanted=wanted, timeout_s=wait_s, heard_by=heard_by)
            found = (await self._session.ask(request)).runs
            over = [run for run in found if run.is_over]
            if left_s <= wait_s or len(over) == len(found) or (over and wanted == "any"):
                return found

    async def steer(self, run: str, message: Content, message_id: str) -> BackgroundRun:
        """Leave a message for a run. Raises RunNotFoundError, RequestError, StoreError."""
        return (await self._session.ask(SteerRun(key=self._key, run=run, id=message_id, content=message))).runs[0]

    async def cancel(self, run: str) -> BackgroundRun:
        """Have a run cancelled, and those that it has started. Raises RunNotFoundError, StoreError."""
        return (await self._session.ask(CancelRun(key=self._key, run=run))).runs[0]

    async def ask_parent(self, question: str, call: str) -> None:
        """Leave a question for the agent that has started this run. Raises RequestError, StoreError.

        Args:
            call: the same when it is asked again.
        """
        of = run_of(self._key.session)
        if of is None:
            raise RequestError("this is no background run: there is no agent to ask")
        await self._session.ask(AskParent(key=self._key, id=f"asks-{of[1]}-{digest(call)}", question=question))
