"""One turn, as its driver sees it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from actors.errors import AgentFailedError, RaygroveError, StoreError, TurnCancelledError, TurnTimeoutError, rebuild
from actors.messages.codec import decode_event
from actors.messages.event import Event
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled, Failed
from actors.messages.session import SessionKey
from actors.rules.delivery.event_buffer import EventBuffer
from runtime.driver.flows import ResultTypes, TaskResult, task_results
from runtime.driver.readers import TurnReaders

if TYPE_CHECKING:
    from runtime.driver.turns import TurnClient


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended.

    Attributes:
        invocation_id: the turn.
        agent: the agent selected for it.
        outcome: Finished, or Paused when it waits for the answers to long-running calls.
        events: its complete events in order, without the user's.
        tasks: what has become of the tasks of its flows, by name.
    """

    invocation_id: str
    agent: str
    outcome: AnyOutcome
    events: Sequence[Event]
    tasks: Mapping[str, TaskResult] = {}

    @property
    def text(self) -> str:
        """What the newest final response says, "" when none says anything."""
        return next((event.text for event in reversed(self.events) if event.is_final_response() and event.text), "")


class Turn:
    """The events of a turn, as they come: `for event in turn` or `async for event in turn`.

    Partial events come between the complete ones. Leaving the iteration before the turn has ended cancels the turn. What
    went wrong is raised when the events have been told. A second iteration tells the complete events again.

    A turn holds a bounded part of its events, however many come and whether or not anybody iterates. Whoever is late is
    given partial events merged, or none of an answer that is complete, and older complete events from the log.
    """

    def __init__(
        self,
        driver: TurnClient,
        key: SessionKey,
        invocation_id: str,
        *,
        after_seq: int = 0,
        answers: bool = False,
        types: ResultTypes | None = None,
    ) -> None:
        self._driver = driver
        self._key = key
        self._invocation_id = invocation_id
        self._agent = ""
        self._answers = answers
        self._readers = TurnReaders(after_seq)
        self._types = {} if types is None else types
        self._outcome: AnyOutcome | None = None
        self._error: BaseException | None = None
        self._started = threading.Event()
        self.is_cancelled = False
        self._changed = threading.Condition()
        self._wake: set[Callable[[], None]] = set()
        self.aio = AsyncTurn(self)

    # ------------------------------------------------------------------------------------------------- for the user
    @property
    def invocation_id(self) -> str:
        """The id of the turn. That of an answer to a long-running call is known when the turn is open; this waits for it."""
        if self._answers:
            self._started.wait()
        return self._invocation_id

    @property
    def agent(self) -> str:
        """The agent that was selected for the turn; waits until that is known. "" when the turn could not start."""
        self._started.wait()
        return self._agent

    def __iter__(self) -> Iterator[Event]:
        with self._changed:
            backlog = self._readers.open()
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: _has_news(backlog) or self._is_over())
                    batch = backlog.take()
                for stored in batch:
                    yield self._event(stored)
                if not batch and not backlog.is_behind:
                    break
                if not batch:
                    self._driver.run(self._catch_up(backlog))
        except GeneratorExit:
            if not self._is_over():
                self.cancel()
            raise
        finally:
            with self._changed:
                self._readers.close(backlog)
        self._raise()

    async def __aiter__(self) -> AsyncIterator[Event]:
        changed = asyncio.Event()
        with self._changed:
            backlog = self._readers.open()
        wake = _waker(changed)

        try:
            while True:
                with self._changed:
                    batch = backlog.take()
                    is_over = self._is_over()
                    if not batch and not backlog.is_behind and not is_over:
                        changed.clear()
                        self._wake.add(wake)
                for stored in batch:
                    yield self._event(stored)
                if not batch:
                    if backlog.is_behind:
                        await self._driver.run_async(self._catch_up(backlog))
                    elif is_over:
                        break
                    else:
                        await changed.wait()
        except (GeneratorExit, asyncio.CancelledError):
            if not self._is_over():
                # The loop that iterated may be closing: the turn is cancelled on the driver's own.
                self._driver.portal.submit(self._driver.cancel(self))
            raise
        finally:
            with self._changed:
                self._readers.close(backlog)
        self._raise()

    def result(self) -> TurnResult:
        """Wait for the end of the turn.

        Raises:
            TurnError: it failed, was cancelled or took too long.
            RaygroveError: it could not start; nothing is stored then.
        """
        with self._changed:
            self._changed.wait_for(self._is_over)
        self._raise()
        backlog, stored = self._told()
        while backlog.is_behind:
            self._driver.run(self._catch_up(backlog))
            stored += backlog.take()
        return self._made(stored)

    def __await__(self) -> Generator[Any, None, TurnResult]:
        return self.aio.result().__await__()

    def cancel(self) -> None:
        """Stop the turn and wait until its log is sealed: calls without an answer get one, `{"error": "cancelled"}`.

        One that is paused is sealed as well: nobody will answer it. One that has ended otherwise is left as it is.

        Raises:
            SessionBusyError: it is paused, and another turn of its session runs.
            ClusterError: it could not be reached.
        """
        self._driver.cancel_from_anywhere(self)

    def _is_over(self) -> bool:
        return self._outcome is not None or self._error is not None

    def _made(self, stored: Sequence[StoredEvent]) -> TurnResult:
        assert self._outcome is not None
        events = [self._event(each) for each in stored if each.seq]
        return TurnResult(
            invocation_id=self._invocation_id,
            agent=self._agent,
            outcome=self._outcome,
            events=events,
            tasks=task_results(events, self._types),
        )

    async def result_async(self) -> TurnResult:
        """The result of a turn that is over, for callers on an event loop. Raises what `result` raises."""
        self._raise()
        backlog, stored = self._told()
        while backlog.is_behind:
            await self._driver.run_async(self._catch_up(backlog))
            stored += backlog.take()
        return self._made(stored)

    def _event(self, stored: StoredEvent) -> Event:
        try:
            return decode_event(stored.raw, stored.seq)
        except (msgspec.DecodeError, RecursionError) as error:
            # One that was imported in another form, say.
            raise StoreError(f"an event of turn {self._invocation_id!r} cannot be read: {error}") from error

    def _told(self) -> tuple[EventBuffer, list[StoredEvent]]:
        with self._changed:
            backlog = self._readers.copy()
        return backlog, backlog.take()

    async def _catch_up(self, backlog: EventBuffer) -> None:
        """Read a page of what was left to the log; on the portal's loop."""
        head_seq = backlog.head_seq
        page = await self._driver.read_turn(self, backlog.after_seq)
        with self._changed:
            backlog.catch_up(page, head_seq)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
        if isinstance(self._outcome, Failed):
            raise _failure(self._outcome)
        if isinstance(self._outcome, Cancelled):
            timeout_s = self._outcome.timeout_s
            raise TurnTimeoutError(self._invocation_id, timeout_s) if timeout_s else TurnCancelledError(self._invocation_id)

    # ------------------------------------------------------------------------------------------------- for the driver
    @property
    def where(self) -> tuple[SessionKey, str]:
        """Session and invocation id, as far as known."""
        return self._key, self._invocation_id

    @property
    def after_seq(self) -> int:
        """The place of the last complete event told."""
        return self._readers.after_seq

    def rename(self, invocation_id: str) -> None:
        """The turn goes on with another one's id."""
        self._invocation_id = invocation_id

    def started(self, agent: str, seq: int = 0) -> None:
        """The turn is open, with the user's event at place `seq`: what stands before it has been told to others."""
        self._agent = agent
        with self._changed:
            self._readers.skip(seq)
        self._started.set()

    def feed(self, stored: Sequence[StoredEvent], outcome: AnyOutcome | None) -> None:
        """News of the turn."""
        with self._changed:
            self._readers.put(stored)
            self._outcome = outcome
            self._notify()

    def fail(self, error: BaseException) -> None:
        """The turn could not start, or cannot be followed any more."""
        self._started.set()
        with self._changed:
            self._error = error
            self._notify()

    def _notify(self) -> None:
        self._changed.notify_all()
        wake, self._wake = self._wake, set()
        for call in wake:
            call()

    def when_over(self, wake: Callable[[], None]) -> bool:
        """Have `wake` called at the next change; False when the turn is over already."""
        with self._changed:
            if self._is_over():
                return False
            self._wake.add(wake)
            return True


class AsyncTurn:
    """The waiting methods of a turn, for callers on an event loop."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    async def result(self) -> TurnResult:
        """Wait for the end of the turn: see Turn.result."""
        changed = asyncio.Event()
        wake = _waker(changed)

        while self._turn.when_over(wake):
            await changed.wait()
            changed.clear()
        return await self._turn.result_async()

    async def cancel(self) -> None:
        """Stop the turn: see Turn.cancel."""
        await self._turn._driver.portal.run_async(self._turn._driver.cancel(self._turn))


def _waker(changed: asyncio.Event) -> Callable[[], None]:
    """Sets an event of the running loop, from any thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        # A loop that has been closed meanwhile has nobody waiting.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(changed.set)

    return wake


def _has_news(backlog: EventBuffer) -> bool:
    return len(backlog) > 0 or backlog.is_behind


def _failure(outcome: Failed) -> RaygroveError:
    """What a failed turn raises: the project's own error as it was, or one that tells of a foreign error."""
    if outcome.error_args is not None:
        return rebuild(outcome.error_code, outcome.error_args)
    return AgentFailedError(outcome.agent, outcome.error_code, outcome.error_message)
