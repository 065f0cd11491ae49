"""One turn, as the program that has started or joined it sees it: its events, and its result."""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Literal

import msgspec

from actors.errors import (
    ActorLostError,
    AgentLostError,
    RaygroveError,
    RequestError,
    RuntimeClosedError,
    StoreError,
    TurnCancelledError,
    TurnTimeoutError,
)
from actors.layers.flows.behaviour.controller import DEFINITION
from actors.layers.flows.definitions import ResultType
from actors.layers.flows.rules.board import Board
from actors.layers.listing.messages import PendingCall
from actors.messages.event import Event, decode_event
from actors.messages.flow import TaskStatus
from actors.messages.json_types import JsonValue
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.runs import AnyOutcome, Cancelled, Failed, Finished, for_users
from actors.messages.shown import Shown
from actors.rules.checks.model_answer import NO_CONTENT
from actors.rules.failures import error_of
from actors.rules.routing.resumption import is_failure
from runtime.driver.arguments import RunOptions
from runtime.driver.turns.client import Steered, TurnClient
from runtime.driver.turns.state import LoopSignal, TurnState, raisable
from runtime.engine.deployment import FlowRegistry
from runtime.engine.process.process_watch import ToldToEnd


class TurnResult(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended.

    Attributes:
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
    def stopped(self) -> str:
        """The condition that has stopped the newest flow of the turn early; "" when that did all its tasks."""
        return stopped_by(self.events)

    @property
    def output(self) -> JsonValue:
        """The output of the graph with which the turn has ended; None of any other agent."""
        return output_of(self.outcome)

    @property
    def text(self) -> str:
        """The text of the newest final response that has any, else ""; the output of a graph counts as one, data as JSON."""
        return text_of(self.events, self.outcome)

    @property
    def finish_reason(self) -> str:
        """Why the model of the newest final response stopped, such as MAX_TOKENS for a text that was cut; "" if not known."""
        return next((event.finish_reason or "" for event in reversed(self.events) if event.is_final_response()), "")

    @property
    def error_code(self) -> str:
        """Why there is no answer though no agent has failed, such as MALFORMED_FUNCTION_CALL or SAFETY; "" when there is one."""
        return self._refusal.error_code or ""

    @property
    def error_message(self) -> str:
        """The same in words, as the model's service has put it."""
        return self._refusal.error_message or ""

    @property
    def _refusal(self) -> Event:
        """The final response with the error code; an empty event without one."""
        ends = (event for event in reversed(self.events) if event.is_final_response() and (event.text or event.error_code))
        newest = next(ends, Event())
        if self.text and (is_failure(newest) or newest.error_code == NO_CONTENT):
            return Event()
        return newest

    def __str__(self) -> str:
        """Its text, as people read it; without any, such as that of a turn which waits for an answer, all that it has."""
        return self.text or repr(self)


Answers = Mapping[str, object]
"""Answers by the id of the call."""

OnLeave = Literal["cancel", "continue"]
"""What leaving the iteration of a turn before its end does to the turn."""


class Turn:
    """The events of a turn, as they come: `for event in turn` or `async for event in turn`.

    Partial events come between the complete ones. When the turn failed, its error is raised after its last event. A second
    iteration gives the complete events again.

    Leaving the iteration before the turn has ended (`break`, an exception, Ctrl-C, a cancelled task, a dropped iterator) cancels
    a turn that was started with `on_leave="cancel"`, the default. It cancels neither a turn that was started with
    `on_leave="continue"` nor one that was attached, and none after SIGTERM.

    A turn holds a bounded part of its events in memory, however many come and whether or not a reader iterates. A slow reader
    gets partial events merged (none once the answer is complete) and older events from the log.

    Args:
        cancels_on_leave: leaving the iteration cancels the turn.
        answer: starts the turn of an answer: see Runtime.answer.
        is_attached: the turn was joined; once the program holds this object no more, its events are fetched no more.
    """

    def __init__(
        self,
        client: TurnClient,
        state: TurnState,
        types: ResultTypes,
        *,
        cancels_on_leave: bool = True,
        answer: Callable[..., Turn] | None = None,
        is_attached: bool = False,
    ) -> None:
        self._client = client
        self._state = state
        self._types = types
        self._cancels_on_leave = cancels_on_leave
        self._answer = answer
        if is_attached:
            weakref.finalize(self, client.unfollow_soon, state).atexit = False

    @property
    def aio(self) -> AsyncTurn:
        """The waiting methods, for callers on an event loop."""
        return AsyncTurn(self)

    def __repr__(self) -> str:
        state = self._state
        ended = state.error if state.error is not None else state.outcome
        how = type(ended).__name__ if ended is not None else "running"
        key = state.key
        return f"Turn({state.invocation_id!r}, {how}, user_id={key.user!r}, session_id={key.session!r})"

    @property
    def invocation_id(self) -> str:
        """The turn's id. A turn that answers a long-running call has the id of that call's turn, and a message that was given to
        a turn that runs has the id of that turn; this waits until it is known."""
        if self._state.is_answer or self._state.may_join:
            self._state.wait_until_started()
        return self._state.invocation_id

    @property
    def session_id(self) -> str:
        """The session of the turn."""
        return self._state.key.session

    @property
    def agent(self) -> str:
        """The agent that was selected for the turn; waits until it is known. "" when the turn could not start."""
        self._state.wait_until_started()
        return self._state.agent

    @property
    def outcome(self) -> AnyOutcome | None:
        """The outcome of the turn; None before its end, and when it could not start or is followed no more."""
        outcome = self._state.outcome
        return for_users(outcome) if outcome is not None else None

    @property
    def is_repeated(self) -> bool:
        """True when the turn was there before `run` has asked for it by its `invocation_id`; waits until that is known."""
        self._state.wait_until_started()
        return self._state.is_repeated

    @property
    def steered(self) -> Steered | None:
        """The way of the message to a turn that ran, as of now; None: it has begun a turn of its own, or is about to.

        It waits until the turn is open. On an event loop `await turn.aio.steered()`.
        """
        self._state.wait_until_started()
        return self._client.run(self._client.steered(self._state)) if self._state.message is not None else None

    def __iter__(self) -> Iterator[Event]:
        state = self._state
        buffer = state.open_reader()
        try:
            if state.fingerprint:
                state.wait_until_started()
                _raise_refusal(state)
            while True:
                batch = state.wait_for_events(buffer)
                for stored in batch:
                    yield decoded(stored)
                if not batch:
                    if state.is_detached or not buffer.is_behind:
                        break
                    self._client.run(self._client.catch_up(state, buffer))
        except (GeneratorExit, KeyboardInterrupt):
            if self._leaving_cancels:
                # A runtime that is being closed ends its turns itself.
                with suppress(RuntimeClosedError):
                    self.cancel()
            raise
        finally:
            state.close_reader(buffer)
        _raise_failure(state)

    @property
    def _leaving_cancels(self) -> bool:
        # One that was given a message goes on for the program that has started it.
        is_own = self._cancels_on_leave and self._state.message is None
        return is_own and not self._state.is_over and not ToldToEnd.by_signal

    async def __aiter__(self) -> AsyncIterator[Event]:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for stored in batch:
                    yield decoded(stored)

    async def batches(self) -> AsyncGenerator[Sequence[StoredEvent]]:
        """The events as `async for` gives them, but as they are stored, and at once those that have come at once."""
        state = self._state
        buffer = state.open_reader()
        wakeup = LoopSignal()
        try:
            if state.fingerprint:
                await state.wait_until_started_async()
                _raise_refusal(state)
            while True:
                batch = await state.wait_for_events_async(buffer, wakeup)
                if batch:
                    yield batch
                else:
                    if state.is_detached or not buffer.is_behind:
                        break
                    await self._client.run_async(self._client.catch_up(state, buffer))
        except (GeneratorExit, asyncio.CancelledError):
            if self._leaving_cancels:
                # Not awaited: the loop that iterated may be closing. A runtime that is being closed ends its turns itself.
                with suppress(RuntimeClosedError):
                    self._client.cancel_soon(state)
            raise
        finally:
            state.close_reader(buffer)
        _raise_failure(state)

    def result(self) -> TurnResult:
        """Wait for the end of the turn. Giving up waiting, as with Ctrl-C, cancels nothing.

        Raises:
            TurnError: it failed, was cancelled or took too long.
            RequestError: the turn runs, and waiting would block an event loop that runs in this thread, which is no notebook's;
                or it was detached.
            RaygroveError: it could not start; nothing is stored then.
        """
        if not self._state.is_over and _is_on_event_loop() and not is_cell():
            raise RequestError(
                f"result() of turn {self._state.invocation_id!r} would block the event loop of this thread until the turn ends: "
                "use `await turn`, or `await turn.result_async()`"
            )
        self._state.wait_for_end()
        _raise_unknown_end(self._state)
        stored = self._state.held_events()
        if stored is None:
            stored = self._client.run(self._client.read_all(self._state))
        return _result(self._state, self._types, stored)

    async def result_async(self) -> TurnResult:
        """Wait for the end of the turn on an event loop, as `await turn` does: see `result`."""
        await self._state.wait_for_end_async()
        _raise_unknown_end(self._state)
        stored = self._state.held_events()
        if stored is None:
            stored = await self._client.run_async(self._client.read_all(self._state))
        return _result(self._state, self._types, stored)

    def __await__(self) -> Generator[Any, None, TurnResult]:
        return self.result_async().__await__()

    @property
    def pending(self) -> list[PendingCall]:
        """The calls at which the paused turn waits for a person, as of now; on an event loop `await turn.aio.pending()`.

        Raises SessionNotFoundError, StoreError, and RuntimeClosedError when the runtime is closed.
        """
        if self._state.is_answer:
            self._state.wait_until_started()
        return self._client.run(self._client.pending(self._state))

    def answer(
        self,
        call: str | PendingCall | Answers,
        response: object = None,
        *,
        confirmed: bool | None = None,
        run_config: RunOptions | None = None,
        on_leave: OnLeave = "cancel",
    ) -> Turn:
        """Answer calls at which the turn waits: see Runtime.answer. The turn goes on in the Turn that this returns."""
        assert self._answer is not None
        key = self._state.key
        options: dict[str, Any] = {"confirmed": confirmed, "run_config": run_config, "on_leave": on_leave}
        return self._answer(call, response, user_id=key.user, session_id=key.session, **options)

    def detach(self) -> None:
        """Follow the turn no more; the turn goes on. `rt.attach` follows it again, from any event on.

        Iterations under way end after what has come. `result()` raises RequestError from now on. A turn that has ended stays as
        it is.
        """
        self._client.unfollow_soon(self._state)

    def cancel(self) -> None:
        """Stop the turn and wait until its log is sealed: calls without an answer get one, `{"error": "cancelled"}`.

        A paused turn is sealed as well, since its calls will get no other answer. A turn that has ended is left as it is.

        Raises:
            SessionBusyError: it is paused, and another turn of its session runs. An answer that waits in line stays there.
            ClusterError: its actors could not be reached.
            RuntimeClosedError: the runtime is closed.
        """
        self._client.cancel_from_any_thread(self._state)


class AsyncTurn:
    """The waiting methods of a turn, for callers on an event loop: `turn.aio`."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._client = turn._client
        self._state = turn._state

    async def started(self) -> str:
        """Wait until the turn is open, also in the line of its session, and return its id.

        Raises:
            RaygroveError: it could not start; nothing is stored then.
        """
        await self._state.wait_until_started_async()
        if self._state.error is not None:
            raise raisable(self._state.error)
        return self._state.invocation_id

    async def is_repeated(self) -> bool:
        """Whether the turn was there before: see `Turn.is_repeated`. It waits for the turn's end."""
        await self._state.wait_for_end_async()
        return self._state.is_repeated

    async def steered(self) -> Steered | None:
        """The way of the message to a turn that ran: see Turn.steered."""
        await self._state.wait_until_started_async()
        return await self._client.run_async(self._client.steered(self._state)) if self._state.message is not None else None

    async def result(self) -> TurnResult:
        """Wait for the end of the turn: see Turn.result."""
        return await self._turn.result_async()

    async def pending(self) -> list[PendingCall]:
        """The calls at which the paused turn waits: see Turn.pending."""
        return await self._client.run_async(self._client.pending(self._state))

    async def cancel(self) -> None:
        """Stop the turn: see Turn.cancel."""
        await self._client.run_async(self._client.cancel(self._state))


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _result(state: TurnState, types: ResultTypes, stored: Sequence[StoredEvent]) -> TurnResult:
    assert state.outcome is not None
    events = [decoded(each) for each in stored if each.seq]
    return TurnResult(
        invocation_id=state.invocation_id,
        agent=state.agent,
        outcome=for_users(state.outcome),
        events=events,
        tasks=task_results(events, types),
    )


def decoded(stored: StoredEvent) -> Event:
    """An event as users see it. Raises StoreError."""
    try:
        return decode_event(stored.raw, stored.seq)
    except (msgspec.DecodeError, RecursionError) as error:
        # An imported event may have another form.
        raise StoreError(f"event {stored.seq} of the session cannot be read: {error}") from error


def _raise_refusal(state: TurnState) -> None:
    """Raise the error of a turn that may have begun with another request. Its events, and its end, may have come before."""
    if state.is_refused and state.error is not None:
        raise raisable(state.error)


def _raise_unknown_end(state: TurnState) -> None:
    """Raise the error of a turn that has no result."""
    if state.is_detached:
        raise RequestError(
            f"turn {state.invocation_id!r} was detached before its end, so its result did not come here: follow it with rt.attach"
        )
    _raise_failure(state)


def _raise_failure(state: TurnState) -> None:
    """Raise the error of a turn that failed, was cancelled or could not start."""
    outcome = state.outcome
    if state.error is not None:
        raise raisable(state.error)
    # By the classes themselves: for one that is not that of a struct `isinstance` asks its metaclass.
    if type(outcome) is Failed:
        raise _failure(outcome)
    if type(outcome) is Cancelled:
        invocation_id, timeout_s = state.invocation_id, outcome.timeout_s
        raise TurnTimeoutError(invocation_id, timeout_s) if timeout_s else TurnCancelledError(invocation_id)


def _failure(outcome: Failed) -> RaygroveError:
    """The error of a failed turn: one of this project as it was raised, or AgentFailedError in place of a foreign one."""
    if outcome.error_code == ActorLostError.__name__:
        return _lost(outcome)
    return error_of(outcome)


def _lost(outcome: Failed) -> AgentLostError:
    """The error of a turn that failed with the loss of an actor. One that was told again from the log has only its text."""
    if outcome.error_args is not None:
        return AgentLostError(*outcome.error_args)
    actor, _, reason = outcome.error_message.partition(" is gone: ")
    return AgentLostError(actor, reason) if reason else AgentLostError(f"agent {outcome.agent!r}", outcome.error_message)


def output_of(outcome: AnyOutcome | None) -> JsonValue:
    """The output of the graph with which a turn has ended; None for none."""
    return outcome.output if isinstance(outcome, Finished) else None


def text_of(events: Sequence[Event], outcome: AnyOutcome | None = None) -> str:
    """The text of the newest final response of a turn that has any, or the output of a graph that is newer, as text; else ""."""
    given = output_event(events)
    if given is not None:
        output = output_of(outcome)
        return as_text(given.output if output is None else output)
    return next((event.text for event in reversed(events) if event.is_final_response() and event.text), "")


def output_event(events: Sequence[Event]) -> Event | None:
    """The event with the output of an outermost graph, if no agent has said anything since, and its node has said nothing."""
    given: Event | None = None
    for event in reversed(events):
        if event.is_final_response() and event.text:
            return given if given is not None and _path(event) != _path(given) else None
        if given is None and event.output is not None and event.node_info is not None:
            given = event if any("/" not in path for path in event.node_info.output_for) else None
    return given


def as_text(output: JsonValue) -> str:
    """An output as text: data as JSON."""
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()


def _path(event: Event) -> str:
    return event.node_info.path if event.node_info is not None else ""


ResultTypes = FlowRegistry[Mapping[str, ResultType]] | Mapping[str, Mapping[str, ResultType]]
"""The type of each task's result, by the name under which the flow was started and by task."""


class TaskResult(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended, or how far it is.

    Attributes:
        status: pending, running, successful, failed or skipped.
        result: the result of a successful task, of the task's `result_type`.
        reason: why the task failed or was skipped.
    """

    name: str
    status: TaskStatus
    result: Any = None
    reason: str = ""


def task_results(events: Sequence[Event], types: ResultTypes) -> dict[str, TaskResult]:
    """The results of the tasks in a turn's events, by name. Where a flow ran several times, the last run counts."""
    of_flows = [event for event in events if event.flow is not None]
    if not of_flows:
        return {}
    boards: dict[str, Board] = {}
    definitions: dict[str, str] = {}
    for event in of_flows:
        if event.flow is not None and not event.partial:
            boards.setdefault(event.flow.run, Board()).add(event.author, event.flow)
            progress = event.actions.agent_state or {}
            if DEFINITION in progress:
                definitions[event.flow.run] = progress[DEFINITION]
    results: dict[str, TaskResult] = {}
    for run, board in boards.items():
        types_of_flow = types.get(definitions.get(run, "")) or {}
        for name, status in board.status.items():
            result = board.results.get(name)
            if name in types_of_flow:
                result = types_of_flow[name].typed(result)
            results[name] = TaskResult(name=name, status=status, result=result, reason=board.reasons.get(name, ""))
    return results


def stopped_by(events: Sequence[Event]) -> str:
    """The condition that has stopped the newest flow in a turn's events early; "" for none."""
    marks = [event.flow for event in events if event.flow is not None and not event.partial]
    return next((mark.stopped for mark in reversed(marks) if mark.run == marks[-1].run and mark.stopped), "")


def is_notebook() -> bool:
    """True in a process that is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def is_cell() -> bool:
    """True in the thread that runs the cells of a notebook.

    An event loop runs there, but a cell holds it anyway until it is done, and no turn needs it: a cell may wait. Other loops of
    the process, of a server in a thread for instance, are not the notebook's.
    """
    return is_notebook() and threading.current_thread() is threading.main_thread()
