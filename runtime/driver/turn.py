"""One turn, as the program that has started or joined it sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from actors.errors import (
    AgentFailedError,
    RaygroveError,
    RuntimeClosedError,
    StoreError,
    TurnCancelledError,
    TurnTimeoutError,
    rebuild,
)
from actors.messages.codec import decode_event
from actors.messages.event import Event
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled, Failed
from runtime.driver.flows import ResultTypes, TaskResult, task_results
from runtime.driver.turn_state import TurnState, Wakeup
from runtime.driver.turns import TurnClient


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended.

    Attributes:
        invocation_id: the turn.
        agent: the agent selected for it.
        outcome: Finished, or Paused when it waits for the answers to long-running calls.
        events: its complete events in order, without the user's.
        tasks: how the tasks of its flows ended, by name.
    """

    invocation_id: str
    agent: str
    outcome: AnyOutcome
    events: Sequence[Event]
    tasks: Mapping[str, TaskResult] = {}

    @property
    def text(self) -> str:
        """The text of the newest final response that has any, else ""."""
        return next((event.text for event in reversed(self.events) if event.is_final_response() and event.text), "")


class Turn:
    """The events of a turn, as they come: `for event in turn` or `async for event in turn`.

    Partial events come between the complete ones. Leaving the iteration before the turn has ended cancels the turn. When the
    turn failed, its error is raised after its last event. A second iteration gives the complete events again.

    A turn holds a bounded part of its events in memory, however many come and whether or not a reader iterates. A slow reader
    gets partial events merged (none once the answer is complete) and older events from the log.

    Attributes:
        aio: `result` and `cancel` for callers on an event loop.
    """

    def __init__(self, client: TurnClient, state: TurnState, types: ResultTypes) -> None:
        self._client = client
        self._state = state
        self._types = types
        self.aio = AsyncTurn(client, state, types)

    @property
    def invocation_id(self) -> str:
        """The turn's id. A turn that answers a long-running call has the id of that call's turn; this waits until it is known."""
        if self._state.is_answer:
            self._state.wait_until_started()
        return self._state.invocation_id

    @property
    def agent(self) -> str:
        """The agent that was selected for the turn; waits until it is known. "" when the turn could not start."""
        self._state.wait_until_started()
        return self._state.agent

    def __iter__(self) -> Iterator[Event]:
        state = self._state
        buffer = state.open_reader()
        try:
            while True:
                batch = state.wait_for_events(buffer)
                for stored in batch:
                    yield _decoded(state, stored)
                if not batch:
                    if not buffer.is_behind:
                        break
                    self._client.run(self._client.catch_up(state, buffer))
        except GeneratorExit:
            if not state.is_over:
                # A runtime that is being closed ends its turns itself.
                with suppress(RuntimeClosedError):
                    self.cancel()
            raise
        finally:
            state.close_reader(buffer)
        _raise_failure(state)

    async def __aiter__(self) -> AsyncIterator[Event]:
        state = self._state
        buffer = state.open_reader()
        wakeup = Wakeup()
        try:
            while True:
                batch = await state.wait_for_events_async(buffer, wakeup)
                for stored in batch:
                    yield _decoded(state, stored)
                if not batch:
                    if not buffer.is_behind:
                        break
                    await self._client.run_async(self._client.catch_up(state, buffer))
        except (GeneratorExit, asyncio.CancelledError):
            if not state.is_over:
                # Not awaited: the loop that iterated may be closing. A runtime that is being closed ends its turns itself.
                with suppress(RuntimeClosedError):
                    self._client.cancel_soon(state)
            raise
        finally:
            state.close_reader(buffer)
        _raise_failure(state)

    def result(self) -> TurnResult:
        """Wait for the end of the turn.

        Raises:
            TurnError: it failed, was cancelled or took too long.
            RaygroveError: it could not start; nothing is stored then.
        """
        self._state.wait_for_end()
        _raise_failure(self._state)
        buffer = self._state.copy_events()
        stored = buffer.take()
        if buffer.is_behind:
            stored += self._client.run(self._client.read_rest(self._state, buffer))
        return _result(self._state, self._types, stored)

    def __await__(self) -> Generator[Any, None, TurnResult]:
        return self.aio.result().__await__()

    def cancel(self) -> None:
        """Stop the turn and wait until its log is sealed: calls without an answer get one, `{"error": "cancelled"}`.

        A paused turn is sealed as well, since its calls will get no other answer. A turn that has ended is left as it is.

        Raises:
            SessionBusyError: it is paused, and another turn of its session runs.
            ClusterError: its actors could not be reached.
            RuntimeClosedError: the runtime is closed.
        """
        self._client.cancel_from_any_thread(self._state)


class AsyncTurn:
    """The waiting methods of a turn, for callers on an event loop: `turn.aio`."""

    def __init__(self, client: TurnClient, state: TurnState, types: ResultTypes) -> None:
        self._client = client
        self._state = state
        self._types = types

    async def result(self) -> TurnResult:
        """Wait for the end of the turn: see Turn.result."""
        await self._state.wait_for_end_async()
        _raise_failure(self._state)
        buffer = self._state.copy_events()
        stored = buffer.take()
        if buffer.is_behind:
            stored += await self._client.run_async(self._client.read_rest(self._state, buffer))
        return _result(self._state, self._types, stored)

    async def cancel(self) -> None:
        """Stop the turn: see Turn.cancel."""
        await self._client.run_async(self._client.cancel(self._state))


def _result(state: TurnState, types: ResultTypes, stored: Sequence[StoredEvent]) -> TurnResult:
    assert state.outcome is not None
    events = [_decoded(state, each) for each in stored if each.seq]
    return TurnResult(
        invocation_id=state.invocation_id,
        agent=state.agent,
        outcome=state.outcome,
        events=events,
        tasks=task_results(events, types),
    )


def _decoded(state: TurnState, stored: StoredEvent) -> Event:
    try:
        return decode_event(stored.raw, stored.seq)
    except (msgspec.DecodeError, RecursionError) as error:
        # An imported event may have another form.
        raise StoreError(f"an event of turn {state.invocation_id!r} cannot be read: {error}") from error


def _raise_failure(state: TurnState) -> None:
    """Raise the error of a turn that failed, was cancelled or could not start."""
    if state.error is not None:
        raise state.error
    if isinstance(state.outcome, Failed):
        raise _failure(state.outcome)
    if isinstance(state.outcome, Cancelled):
        invocation_id, timeout_s = state.invocation_id, state.outcome.timeout_s
        raise TurnTimeoutError(invocation_id, timeout_s) if timeout_s else TurnCancelledError(invocation_id)


def _failure(outcome: Failed) -> RaygroveError:
    """The error of a failed turn: one of this project as it was raised, or AgentFailedError in place of a foreign one."""
    if outcome.error_args is not None:
        return rebuild(outcome.error_code, outcome.error_args)
    return AgentFailedError(outcome.agent, outcome.error_code, outcome.error_message)
