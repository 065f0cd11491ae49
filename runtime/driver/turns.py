"""What a driver does on its loop: turns are started, joined and stopped."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from actors.definitions.flows import FlowPlan
from actors.errors import RaygroveError, RuntimeClosedError
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs.session import SessionRef
from runtime.driver.event_loop import Portal
from runtime.driver.subscriber import Subscriber
from runtime.driver.turn import Turn
from runtime.engine.interface import Engine

T = TypeVar("T")


class TurnClient:
    """Starts turns, joins them and stops them. Lives on the portal's loop."""

    def __init__(self, app_name: str, portal: Portal, engine: Engine) -> None:
        self._app_name = app_name
        self.portal = portal
        self.engine = engine
        self._name = f"driver-{uuid.uuid4().hex}"
        self._own: dict[SessionRef, Subscriber] = {}
        self._joined: list[Subscriber] = []
        self._work: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def start_soon(self, turn: Turn, message: p.StartTurn, plan: FlowPlan | None = None) -> None:
        """Start a turn, which carries out `plan` if there is one. May be called from any thread."""
        self.portal.loop.call_soon_threadsafe(lambda: self._begin(self._start(turn, message, plan)))

    def attach_soon(self, turn: Turn, after_seq: int) -> None:
        """Follow a turn that somebody else has started. May be called from any thread."""
        self.portal.loop.call_soon_threadsafe(lambda: self._begin(self._attach(turn, after_seq)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _start(self, turn: Turn, message: p.StartTurn, plan: FlowPlan | None) -> None:
        # A turn that may be there already is told from its first event on, beside whatever else is heard of it here.
        follower = self._joining(message.key) if message.repeatable else self._follower(message.key)
        follower.follow(turn)
        follower.expect()
        try:
            if plan is not None:
                await self.engine.define(message.flow, plan)
            started = await self.engine.runner.start_turn(msgspec.structs.replace(message, subscriber=follower.name))
        except Exception as error:
            # Whatever kept the turn from starting is the user's to see.
            follower.leave(turn)
            turn.fail(error)
            return
        else:
            if started.invocation_id != turn.where[1]:
                follower.rename(turn, started.invocation_id)
            turn.started(started.agent, started.seq)
        finally:
            follower.known()
        if turn.is_cancelled:
            # The wish came before there was anything to cancel.
            await self.cancel(turn)

    async def _attach(self, turn: Turn, after_seq: int) -> None:
        key, invocation_id = turn.where
        follower = self._joining(key)
        follower.follow(turn)
        try:
            status = await self.engine.session.subscribe(
                p.Subscribe(subscriber=follower.name, key=key, invocation_id=invocation_id, after_seq=after_seq)
            )
            if status == "lost":
                # Its Runner may be gone, with the whole deployment that it belonged to.
                await self.engine.runner.recover_turn(p.RecoverTurn(key=key, invocation_id=invocation_id))
        except RaygroveError as error:
            follower.leave(turn)
            turn.fail(error)
        else:
            turn.started("")

    def _follower(self, key: SessionKey) -> Subscriber:
        """The subscriber for the turns that are started here, one with each Session actor that has any."""
        session = self.engine.session.of(key)
        if session not in self._own:
            self._own[session] = Subscriber(session, self._name, lasts=True)
        return self._own[session]

    def _joining(self, key: SessionKey) -> Subscriber:
        """A subscriber of its own: what it is told again must come before what is new, and after nothing."""
        self._joined = [follower for follower in self._joined if not follower.is_done()]
        follower = Subscriber(self.engine.session.of(key), f"{self._name}/{uuid.uuid4().hex}", lasts=False)
        self._joined.append(follower)
        return follower

    async def cancel(self, turn: Turn) -> None:
        """Stop a turn, wherever it runs."""
        turn.is_cancelled = True
        key, invocation_id = turn.where
        await self.engine.runner.cancel_turn(p.CancelTurn(key=key, invocation_id=invocation_id))

    def cancel_from_anywhere(self, turn: Turn) -> None:
        """Stop a turn and wait for it; on the portal's own thread, which may not wait, only have it stopped."""
        if self.portal.is_here():
            self._begin(self.cancel(turn))
        else:
            self.portal.run(self.cancel(turn))

    async def read_turn(self, turn: Turn, after_seq: int) -> p.TurnRead:
        """A page of what the log has of a turn."""
        key, invocation_id = turn.where
        return await self.engine.session.read_turn(p.ReadTurn(key=key, invocation_id=invocation_id, after_seq=after_seq))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the portal's loop and wait for it. Raises RuntimeClosedError."""
        return self._open_portal(work).run(work)

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for a caller on an event loop."""
        return await self._open_portal(work).run_async(work)

    def _open_portal(self, work: Coroutine[Any, Any, T]) -> Portal:
        if self._is_closed:
            work.close()
            raise RuntimeClosedError(self._app_name)
        return self.portal

    async def leave(self) -> None:
        """Follow nothing any more of a deployment that goes on: nothing is kept there for this driver."""
        await self.close()
        await asyncio.gather(
            *(follower.unsubscribe() for follower in (*self._own.values(), *self._joined) if not follower.is_done())
        )

    async def close(self) -> None:
        """Follow nothing any more."""
        self._is_closed = True
        for task in self._work:
            task.cancel()
        closed = RuntimeClosedError(self._app_name)
        for follower in (*self._own.values(), *self._joined):
            await follower.close(closed)
