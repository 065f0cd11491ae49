"""Turns that schedules make: this Runner waits for what is due of its sessions, and starts it.

Rules of this file:

- A Runner asks each Session actor, and waits for the reply until something is due.
- It begins each turn under an id that the due time gives it, and the schedule goes on in the step in which the turn begins. So a
  due time makes one turn, however often it is started, and by whichever Runner.
- What it is about to start stays due until it begins, which takes long where its session is busy. So it asks for what comes after
  that; from the first one again when nothing is about to start, and when a schedule is due again that was started before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from actors.actor import Handlers
from actors.errors import (
    InvalidMessageError,
    OverloadedError,
    RaygroveError,
    RequestError,
    ScheduleNotFoundError,
    SessionBusyError,
    SessionNotFoundError,
    TurnCancelledError,
    TurnError,
)
from actors.layers.schedules.messages import AwaitDue, DueReply, DueTurn, PassDueTime, WatchSchedules
from actors.layers.schedules.rules import is_turn_of_schedule, turn_config, turn_id
from actors.layers.stores.schedule import DuePlace
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import decode_event
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from actors.rules.backoff import Backoff
from actors.runner.service import RunnerParts, RunnerService

T = TypeVar("T")

logger = logging.getLogger(__name__)

AGAIN = Backoff(1.0, 30.0)
"""Waits after a Session actor or a store could not be reached, or as many turns waited as may."""

PAUSE_S = 0.2
"""How long to wait, while turns are about to start, before what is due is read from the first one again."""


class DueTurns(RunnerService):
    """Starts what is due, from WatchSchedules on."""

    def __init__(self, parts: RunnerParts) -> None:
        self._place = parts.place
        self._app = parts.app
        self._session = parts.session
        self._starter = parts.starter
        self._recovery = parts.recovery
        self._watches: list[asyncio.Task[None]] = []

    def handlers(self) -> Handlers:
        """Its message."""
        return {WatchSchedules: self.watch_schedules}

    async def watch_schedules(self, _: WatchSchedules) -> p.Ack:
        """Start turns from now on when schedules are due."""
        self.recover()
        return p.Ack()

    def recover(self) -> None:
        """Start turns from now on when schedules are due, if that has not begun yet."""
        if not self._watches:
            watches = [_Watch(self, session) for session in self._session.sharing(self._place.shard)]
            self._watches = [asyncio.create_task(watch.run()) for watch in watches]

    async def close(self) -> None:
        """Start no more turns."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def resume(self, session: SessionRef) -> None:
        """Resume the turns that schedules have begun in a deployment that is gone: no program comes to ask for them.

        Raises StoreError, ClusterError.
        """
        await self._recovery.take_up_open(session, is_turn_of_schedule)

    async def due(self, session: SessionRef, after: DuePlace | None, number: int) -> DueReply:
        """Wait until something is due at a Session actor after a place, and return it. Raises StoreError, ClusterError.

        Args:
            number: of the reply that has that place.
        """
        place = self._place
        message = AwaitDue(app=self._app, runner=place.runner_id, term=place.term, shard=place.shard, after=after, number=number)
        return await self._place.ask_as_leader(session, lambda: session.ask(message))

    async def start(self, turn: DueTurn) -> p.TurnStarted:
        """Begin a turn; one that is there is joined. Raises what is wrong with it."""
        waited = turn.message
        if waited is not None and waited.cancels:
            await self._starter.cancel_turn(p.CancelTurn(key=turn.key, invocation_id=waited.cancels))
            return p.TurnStarted(invocation_id=waited.cancels, agent="", attached=True)
        message = p.StartTurn(
            key=turn.key,
            invocation_id=turn_id(turn.time),
            repeatable=True,
            content=turn.content,
            config=turn_config(turn.config, turn.time.name, turn.time.due_s) if waited is None else turn.config,
            auto_create=waited is None or waited.creates,
            due=turn.time,
        )
        if waited is not None:
            message = msgspec.structs.replace(
                message,
                content=(decode_event(waited.event, 0).content or Content()) if waited.event else turn.content,
                state_delta=waited.state_delta,
                fingerprint=waited.fingerprint,
                traceparent=waited.traceparent,
            )
        return await self._starter.start_turn(message)


class _Watch:
    """What is due at one Session actor."""

    def __init__(self, turns: DueTurns, session: SessionRef) -> None:
        self._turns = turns
        self._session = session
        self._starting: set[tuple[SessionKey, str]] = set()
        self._after: DuePlace | None = None
        self._number = 0
        self._from_first = asyncio.Event()
        self._is_behind = False
        self._failed = 0

    async def run(self) -> None:
        """Start what is due until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            await self._reached(lambda: self._turns.resume(self._session))
            while True:
                reply = await self._reached(self._ask)
                if reply is None:
                    if self._is_behind and self._starting:
                        await asyncio.sleep(PAUSE_S)
                    self._from_first.clear()
                    self._is_behind, self._after = False, None
                    continue
                self._after, self._number = reply.after, reply.number
                for turn in reply.turns:
                    schedule = (turn.key, turn.time.id)
                    if schedule not in self._starting:
                        self._starting.add(schedule)
                        tasks.create_task(self._start(turn, schedule))

    async def _reached(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The reply of the Session actor, which may be away for long."""
        failed = 0
        while True:
            try:
                return await ask()
            except RaygroveError as error:
                failed += 1
                level = logging.WARNING if failed == 1 else logging.DEBUG
                logger.log(level, "schedules wait, since what is due cannot be read: %s", error)
                await asyncio.sleep(AGAIN.after_attempts(failed))

    async def _ask(self) -> DueReply | None:
        """Wait until something is due; None when it is to be read from the first one again."""
        asking = asyncio.ensure_future(self._turns.due(self._session, self._after, self._number))
        changed = asyncio.ensure_future(self._from_first.wait())
        try:
            await asyncio.wait((asking, changed), return_when=asyncio.FIRST_COMPLETED)
            return await asking if asking.done() else None
        finally:
            asking.cancel()
            changed.cancel()

    async def _start(self, turn: DueTurn, schedule: tuple[SessionKey, str]) -> None:
        """Start a turn, and see that its schedule goes on."""
        user, next_s = turn.key.user, turn.time.next_s
        name = repr(turn.time.name) if turn.message is None else f"of a message to session {turn.key.session!r}"
        try:
            if (await self._turns.start(turn)).attached:
                # It was there: its schedule has gone on with it, unless the store went back to an older copy in between.
                await self._pass(turn, "")
            self._failed = 0
        except ScheduleNotFoundError:
            logger.info("schedule %s of user %r was deleted or paused, or has gone on: no turn begins", name, user)
            # It is still due where the store has refused to have it changed.
            self._is_behind = True
        except (OverloadedError, SessionBusyError) as error:
            await self._wait_after(turn, error)
        except (RequestError, TurnError) as error:
            # It would fail each time.
            is_moot = turn.message is not None and isinstance(error, TurnCancelledError | SessionNotFoundError)
            # An agent that another one runs reads it when it runs.
            waits = turn.time.is_sent and isinstance(error, InvalidMessageError)
            level = logging.INFO if is_moot or waits else logging.ERROR
            logger.log(level, "schedule %s of user %r makes no turn: %s", name, user, error)
            await self._pass(turn, f"{type(error).__name__}: {error}")
        except Exception as error:
            # Also of foreign code in the message's way: what is due stays due, and other schedules do not wait for it.
            await self._wait_after(turn, error)
        self._starting.discard(schedule)
        if self._after is not None and next_s is not None and next_s <= self._after.due_s:
            self._is_behind = True
        if self._is_behind or not self._starting:
            self._from_first.set()

    async def _pass(self, turn: DueTurn, error: str) -> None:
        try:
            await self._session.ask(PassDueTime(key=turn.key, time=turn.time, error=error))
        except RaygroveError as failure:
            await self._wait_after(turn, failure)

    async def _wait_after(self, turn: DueTurn, error: Exception) -> None:
        """Leave a turn due, and look at it again later."""
        self._failed += 1
        logger.warning("the turn of schedule %r of user %r begins later: %s", turn.time.name, turn.key.user, error)
        await asyncio.sleep(AGAIN.after_attempts(self._failed))
        self._is_behind = True
        self._from_first.set()
