"""Starts, joins and cancels turns, and follows those that are there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

import msgspec

from actors.actor import KeyedLocks
from actors.errors import (
    InvocationNotFoundError,
    OverloadedError,
    RaygroveError,
    RuntimeClosedError,
    UpgradingError,
    UserElsewhereError,
)
from actors.layers.flows.definitions import FlowPlan
from actors.layers.listing.messages import ListPending, PendingCall
from actors.layers.retries import RetryTurn, TurnRetried
from actors.layers.steering.messages import FindMessage, MessagePlace
from actors.messages import protocol as p
from actors.messages.config import DEFAULT_LIMITS
from actors.messages.protocol.base import StoredEvent
from actors.messages.session import SessionKey, TurnKey
from actors.messages.shown import Shown
from actors.rules.backoff import Backoff
from actors.rules.event_buffer import EventBuffer
from runtime.driver.engine_client import EngineClient, Work
from runtime.driver.turns.refused_lines import AskedTurns, Line, RefusedLines, lines_of
from runtime.driver.turns.state import GivenMessage, TurnState
from runtime.driver.turns.subscriber import Subscriber, Subscribers


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


T = TypeVar("T")

AGAIN = Backoff(0.02, 1.0)
"""Times between two looks for a message whose turn is about to begin."""

MOST_STORES = 16
"""Redirects that are followed for a user who was moved between stores."""


class TurnWork:
    """Coroutines that start, follow and cancel turns, until the Runtime is closed.

    Args:
        app_name: of the Runtime, for the error of turns that it gives up.
    """

    def __init__(self, app_name: str) -> None:
        self._app_name = app_name
        self._tasks: dict[asyncio.Task[None], TurnState | None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, work: Work[None], turn: TurnState | None = None) -> None:
        """Run a coroutine. `turn`: the one that it starts or follows, which fails when it is cancelled."""
        # Asyncio asks the kernel for the process each time that it is asked for the running loop.
        loop = self._loop = self._loop or asyncio.get_running_loop()
        task = loop.create_task(work)
        self._tasks[task] = turn
        task.add_done_callback(self._end)

    def cancel_all(self) -> None:
        """Cancel what has not ended."""
        for task in self._tasks:
            task.cancel()

    def _end(self, task: asyncio.Task[None]) -> None:
        turn = self._tasks.pop(task)
        if turn is not None and task.cancelled():
            # It may have been cancelled before its first step, so this cannot be left to the coroutine.
            turn.fail(RuntimeClosedError(self._app_name, "is closed"))


class Steered(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """The way of a message to a turn that ran.

    Attributes:
        invocation_id: the turn.
        agent: the agent that has read it, before its next model call; "": none has yet.
        seq: the position of the message in the log; 0: it is not there yet.
    """

    invocation_id: str
    agent: str = ""
    seq: int = 0


class Following:
    """Subscribes to turns that are there. Its coroutines run on the portal's loop."""

    def __init__(self, client: EngineClient) -> None:
        self._engine = client.engine
        self.work = TurnWork(client.app_name)
        self.subscribers = Subscribers(client.engine, self._go_on_soon, self._follow_message_soon)

    def _go_on_soon(self, turns: Sequence[TurnState], error: UpgradingError) -> None:
        for turn in turns:
            self.work.begin(self._go_on(turn, error), turn)

    async def _go_on(self, turn: TurnState, error: UpgradingError) -> None:
        """Follow a turn whose deployment is gone in the one that takes its place."""
        if not await self._engine.has_successor(error):
            turn.fail(error)
            return
        # One that is being started is asked for again.
        await turn.wait_until_started_async()
        if not turn.is_over and not self.subscribers.follows(turn):
            await self.subscribe(turn, turn.after_seq, turn.agent, goes_on=True)

    async def join(self, turn: TurnState, started: p.TurnStarted) -> None:
        """Follow the turn that the message of this one was given to, from here on."""
        if turn.is_over:
            # No agent has read it, and its own turn has ended before this reply has come.
            turn.mark_started(started.agent)
            return
        turn.message = GivenMessage(started.message, turn.invocation_id, started.invocation_id)
        turn.ask_again = self._follow_message_soon
        turn.rename(started.invocation_id)
        await self.subscribe(turn, started.seq, started.agent)

    def _follow_message_soon(self, turn: TurnState, outcome: p.AnyOutcome | None = None) -> None:
        self.work.begin(self._follow_message(turn, outcome), turn)

    async def _follow_message(self, turn: TurnState, outcome: p.AnyOutcome | None) -> None:
        """The turn has ended that a message was given to. If none of its agents has read it, follow the turn that has it.

        Args:
            outcome: of the turn that is followed; None: it has left the line, and may have begun.
        """
        message = turn.message
        assert message is not None
        # The subscriber of a turn that has left the line would look for that in vain, and give up this one.
        await self.subscribers.drop_turn(turn)
        try:
            for attempt in count(1):
                place = await self.place_of(turn)
                is_end_of_other = place.opened_seq > turn.opened_seq and turn.invocation_id == message.joined
                if outcome is not None and place.invocation_id == turn.invocation_id and not is_end_of_other:
                    turn.feed((), outcome)
                    return
                if not place.invocation_id and not place.waits:
                    raise InvocationNotFoundError(message.begins, turn.key.session)
                if place.invocation_id or place.is_in_line:
                    break
                await asyncio.sleep(AGAIN.after_attempts(attempt))
        except RaygroveError as error:
            turn.fail(error)
            return
        # The end of the pause before it has come: the turn that it was given to may be the one that it answers.
        turn.opened_seq = place.opened_seq
        turn.rename(place.invocation_id or message.begins)
        # Should another turn read it while its own waits in line, the subscriber learns that this is gone, and looks again.
        turn.ask_again = self._follow_message_soon
        await self.subscribe(turn, turn.after_seq, "", goes_on=True)

    async def place_of(self, turn: TurnState) -> MessagePlace:
        """Where a message is that was given to a turn. Raises StoreError, ClusterError."""
        message = turn.message
        assert message is not None
        asked = FindMessage(key=turn.key, invocation_id=message.begins, event_id=message.event_id)
        return await self._engine.session.ask(asked)

    async def subscribe(
        self, turn: TurnState, after_seq: int, agent: str, stores: int = MOST_STORES, *, goes_on: bool = False
    ) -> None:
        """Subscribe to a turn, and have it go on if its Runner is gone. A turn that cannot be followed fails.

        Args:
            after_seq: the last event that is not wanted, or has come.
            agent: the agent selected for it; "" where that is not known.
            stores: how many stores may be asked.
            goes_on: it was followed before: what has come stays.
        """
        key, invocation_id = turn.turn_key
        subscriber = self.subscribers.single(key)
        subscriber.add(turn)
        try:
            status = await self._engine.session.subscribe(
                p.Subscribe(subscriber=subscriber.name, key=key, invocation_id=invocation_id, after_seq=after_seq)
            )
            if status == "lost":
                # Its Runner may have ended, with its whole deployment.
                await self._engine.runner.ask(p.RecoverTurn(key=key, invocation_id=invocation_id))
        except RaygroveError as error:
            subscriber.remove(turn)
            if isinstance(error, UserElsewhereError) and stores > 1:
                # By now it is known where the user is.
                await self.subscribe(turn, after_seq, agent, stores - 1, goes_on=goes_on)
            elif await self._engine.has_successor(error):
                await self.subscribe(turn, after_seq, agent, goes_on=goes_on)
            elif isinstance(error, InvocationNotFoundError) and turn.message is not None and turn.ask_again is not None:
                # The turn of its message has left the line, and is about to begin.
                turn.ask_again(turn)
            else:
                turn.fail(error)
        else:
            turn.has_begun = status != "waiting"
            turn.mark_started(agent, 0 if goes_on else after_seq)
            if turn.is_detached:
                # Its subscription may have come after the end of that.
                await subscriber.drop_turn(turn)


class TurnClient:
    """Starts, joins and cancels turns through the engine, and reads their logs.

    Its coroutines run on the portal's loop; its other methods may be called from any thread, and raise RuntimeClosedError when
    the runtime is closed.
    """

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._engine = client.engine
        self._following = Following(client)
        self._work = self._following.work
        self._subscribers = self._following.subscribers
        self._in_order: KeyedLocks[SessionKey] = KeyedLocks()
        self._refusals = Refusals(client)
        self._joining: KeyedLocks[TurnKey] = KeyedLocks()

    def refusal(self, *, again: bool, unread: int) -> OverloadedError | None:
        """The error that any new turn would get without being asked for; None when one may be asked for, and is about to be."""
        return self._refusals.of_any_turn(again=again, unread=unread)

    def start_soon(self, turn: TurnState, message: p.StartTurn, plan: FlowPlan | None = None) -> None:
        """Start a turn, without waiting for it.

        Args:
            turn: its new state, which takes the error if it cannot start.
            plan: the flow that it carries out, if any, with the name `message.flow`.
        """

        if not message.repeatable and (refusal := self._refusals.ask(turn)) is not None:
            # On this thread: a loop that is busy would take long to say so.
            turn.fail(refusal)
            return

        if plan is None:
            self._client.call_soon(lambda: self._work.begin(self._start(turn, message), turn))
            return

        async def defined() -> p.StartTurn:
            await self._engine.define(message.flow, plan, message.key)
            return message

        self.answer_soon(turn, defined)

    def answer_soon(self, turn: TurnState, build: Callable[[], Awaitable[p.StartTurn]]) -> None:
        """Start a turn with a message that is still to be built, without waiting for it."""
        self._client.call_soon(lambda: self._work.begin(self._start(turn, build), turn))

    def attach_soon(self, turn: TurnState, after_seq: int, retry: RetryTurn | None = None) -> None:
        """Subscribe to a turn that another program, or this one, has started, without waiting for it.

        Args:
            retry: the turn has failed, and is run on first; its new events are given.
        """
        self._client.call_soon(lambda: self._work.begin(self._attach(turn, after_seq, retry), turn))

    def cancel_soon(self, turn: TurnState) -> None:
        """Cancel a turn, without waiting for it."""
        self._client.call_soon(lambda: self._work.begin(self.cancel(turn)))

    def unfollow_soon(self, turn: TurnState) -> None:
        """Stop following a turn that goes on, without waiting for it. A closed runtime follows none."""
        turn.detach()
        if turn.is_detached:
            with suppress(RuntimeClosedError):
                self._client.call_soon(lambda: self._work.begin(self._subscribers.drop_turn(turn)))

    def cancel_from_any_thread(self, turn: TurnState) -> None:
        """Cancel a turn and wait for it; on the portal's own thread, which must not wait, without waiting."""
        if self._client.is_current_thread():
            self._work.begin(self.cancel(turn))
        else:
            self.run(self.cancel(turn))

    def run(self, work: Work[T]) -> T:
        """Run a coroutine of this client and wait for its result. Raises what it raises."""
        return self._client.run(work)

    async def run_async(self, work: Work[T]) -> T:
        """Run a coroutine of this client, for a caller on another event loop. Raises what it raises."""
        return await self._client.run_async(work)

    async def _start(self, turn: TurnState, asked: p.StartTurn | Callable[[], Awaitable[p.StartTurn]]) -> None:
        """Start a turn with a message, or with what builds it."""
        if isinstance(asked, p.StartTurn) and not self._engine.has_ended and not self._in_order.is_held(turn.key):
            await self._ask(turn, asked)
            return
        try:
            # Turns of a session are sent in the order in which the program has started them, whatever comes before.
            async with self._in_order.locked(turn.key):
                await self._engine.rejoin()
                message = asked if isinstance(asked, p.StartTurn) else await asked()
        except Exception as error:
            # The user gets whatever kept the turn from starting.
            self._refusals.leave(turn)
            turn.fail(error)
            return
        await self._ask(turn, message)

    async def _ask(
        self, turn: TurnState, message: p.StartTurn, feeding: Subscriber | None = None, stores: int = MOST_STORES
    ) -> None:
        """Ask the Runner for a turn; once more where its user is in another store than this program knew.

        Args:
            feeding: the subscriber that feeds it already.
            stores: how many stores may be asked.
        """
        app, user = message.key.app, message.key.user
        store = message.store if feeding else self._engine.session.store_of(app, user)
        subscriber = feeding or _feeding(self._subscribers, turn, message)
        asked = msgspec.structs.replace(message, subscriber=subscriber.name, store=store)
        subscriber.starting.begin()
        try:
            try:
                started = await self._engine.runner.start_turn(asked)
            except Exception as error:
                if message.repeatable and not isinstance(error, OverloadedError):
                    # It may have been joined: the Session actor would not begin it again for the next request.
                    await subscriber.drop_turn(turn)
                else:
                    subscriber.remove(turn)
                if isinstance(error, UserElsewhereError) and stores > 1:
                    self._engine.session.note_store(app, user, error.store)
                    await self._ask(turn, message, stores=stores - 1)
                    return
                if await self._engine.has_successor(error):
                    again = self._subscribers.single(turn.key)
                    again.add(turn)
                    self._work.begin(self._ask(turn, msgspec.structs.replace(message, repeatable=True, store=store), again), turn)
                    return
                # The user gets whatever kept the turn from starting.
                if isinstance(error, OverloadedError):
                    self._refusals.note(turn, error)
                else:
                    self._refusals.leave(turn)
                turn.fail(error)
                return
            self._refusals.leave(turn, makes_room=not started.attached)
            if started.message:
                subscriber.remove(turn)
                await self._following.join(turn, started)
                return
            if started.invocation_id != turn.invocation_id:
                subscriber.rename(turn, started.invocation_id, started.seq, is_joined=started.attached)
            turn.is_repeated, turn.has_begun = started.attached, not started.attached
            if started.attached and message.repeatable:
                # It is given the turn: a turn that it held would hold itself.
                turn.ask_again = lambda joined: self._work.begin(self._ask(joined, asked, subscriber))
            turn.mark_started(started.agent, started.seq)
        finally:
            subscriber.starting.end()
        if turn.is_cancelled:
            # It was cancelled before the Runner knew it.
            await self.cancel(turn)
        if turn.is_detached:
            await subscriber.drop_turn(turn)

    async def _attach(self, turn: TurnState, after_seq: int, retry: RetryTurn | None) -> None:
        # One after the other, so that all objects of a turn share the subscriber of the first one.
        async with self._joining.locked(turn.turn_key):
            if turn.is_detached:
                return
            agent = ""
            try:
                await self._engine.rejoin()
                if retry is not None:
                    retried = await self._engine.runner.ask(retry)
                    # Of Session actors it has other replies.
                    assert isinstance(retried, TurnRetried)
                    agent, after_seq = retried.agent, retried.after_seq
            except RaygroveError as error:
                turn.fail(error)
                return
            if retry is None and self._subscribers.joins(turn):
                turn.mark_started("")
            else:
                await self._following.subscribe(turn, after_seq, agent)

    async def cancel(self, turn: TurnState) -> None:
        """Cancel a turn, wherever it runs, and wait until its log is sealed. Raises SessionBusyError, ClusterError."""
        turn.is_cancelled = True
        await self._engine.runner.ask(p.CancelTurn(key=turn.key, invocation_id=turn.invocation_id))

    async def pending(self, turn: TurnState) -> list[PendingCall]:
        """The calls at which a turn waits. Raises SessionNotFoundError, StoreError."""
        key = turn.key
        message = ListPending(app=key.app, user=key.user, session=key.session, invocation_id=turn.invocation_id)
        return list((await self._engine.session.ask(message)).calls)

    async def steered(self, turn: TurnState) -> Steered | None:
        """The way of a message to a turn that ran. Raises StoreError, ClusterError."""
        message, place = turn.message, await self._following.place_of(turn)
        assert message is not None
        if place.seq and not place.agent:
            return None
        return Steered(invocation_id=place.invocation_id or message.joined, agent=place.agent, seq=place.seq)

    async def catch_up(self, turn: TurnState, buffer: EventBuffer) -> None:
        """Read a page of the turn's log into a buffer that is behind. Raises StoreError, SessionNotFoundError."""
        head_seq = buffer.head_seq
        request = p.ReadTurn(key=turn.key, invocation_id=turn.invocation_id, after_seq=buffer.after_seq)
        turn.catch_up(buffer, await self._engine.session.ask(request), head_seq)

    async def read_all(self, turn: TurnState) -> list[StoredEvent]:
        """All events of a turn so far, read from its log where they are not held. Raises what `catch_up` raises."""
        buffer = turn.copy_events()
        events = buffer.take_events()
        while buffer.is_behind:
            await self.catch_up(turn, buffer)
            events += buffer.take_events()
        return events

    async def leave(self) -> None:
        """Let go of the turns of a deployment that goes on: its Session actors keep nothing for this driver."""
        await self.close()
        await self._subscribers.unsubscribe()

    async def close(self) -> None:
        """Fail the turns that have not ended with RuntimeClosedError."""
        self._work.cancel_all()
        await self._subscribers.close(RuntimeClosedError(self._client.app_name, "is closed"))


def _feeding(subscribers: Subscribers, turn: TurnState, message: p.StartTurn) -> Subscriber:
    """The subscriber that feeds a turn from now on."""
    subscriber = subscribers.permanent(message.key)
    if message.repeatable and subscriber.has(turn.turn_key):
        # This program follows the turn already: the Session actor sends its events so far to another subscriber only.
        subscriber = subscribers.single(message.key)
    subscriber.add(turn)
    return subscriber
