"""Follows turns of other programs, and turns whose deployment an upgrade has replaced."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence

from actors.errors import RaygroveError, RuntimeClosedError, UpgradingError, UserElsewhereError
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs.session import SessionRef
from actors.refs.tasks import begin_task
from runtime.driver.engine_client import EngineClient
from runtime.driver.event_loop import Work
from runtime.driver.turns.state import TurnState
from runtime.driver.turns.subscriber import OnLost, Subscriber
from runtime.engine.interface import Engine


class Subscribers:
    """Makes subscribers and closes them. Lives on the portal's loop.

    Args:
        engine: whose Session actors are subscribed to.
        on_lost: see Subscriber.
    """

    def __init__(self, engine: Engine, on_lost: OnLost) -> None:
        self._engine = engine
        self._on_lost = on_lost
        self._name = f"driver-{uuid.uuid4().hex}"
        self._permanent: dict[SessionRef, Subscriber] = {}
        self._single: list[Subscriber] = []

    def permanent(self, key: SessionKey) -> Subscriber:
        """The subscriber for turns that are started here: one for each Session actor that has any."""
        session = self._engine.session.of(key)
        subscriber = self._permanent.get(session)
        if subscriber is None:
            subscriber = self._permanent[session] = Subscriber(session, self._name, self._on_lost, is_permanent=True)
        return subscriber

    def single(self, key: SessionKey) -> Subscriber:
        """A new subscriber for a turn that may have events already: it gets those before the new ones, and none twice."""
        self._single = [subscriber for subscriber in self._single if not subscriber.is_done()]
        name = f"{self._name}/{uuid.uuid4().hex}"
        subscriber = Subscriber(self._engine.session.of(key), name, self._on_lost, is_permanent=False)
        self._single.append(subscriber)
        return subscriber

    def joins(self, turn: TurnState) -> bool:
        """Feed a turn by a subscriber that follows it for another object. False when there is none: see Subscriber.joins."""
        return any(subscriber.joins(turn) for subscriber in self._single if subscriber.has(turn.turn_key))

    def follows(self, turn: TurnState) -> bool:
        """True when one of them feeds the turn."""
        return any(subscriber.follows(turn) for subscriber in self._all())

    async def drop_turn(self, turn: TurnState) -> None:
        """Stop following a turn that goes on."""
        for subscriber in self._all():
            if subscriber.follows(turn):
                await subscriber.drop_turn(turn)

    async def unsubscribe(self) -> None:
        """Have the Session actors drop what they keep for these subscribers."""
        await asyncio.gather(*(each.unsubscribe() for each in self._all() if not each.is_done()))

    async def close(self, error: BaseException) -> None:
        """Stop polling; turns that have not ended fail with `error`."""
        for subscriber in self._all():
            await subscriber.close(error)

    def _all(self) -> list[Subscriber]:
        return [*self._permanent.values(), *self._single]


MOST_STORES = 16
"""How often a turn is asked for in another store, each time in that which the one before has named."""


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
        task = begin_task(work, loop)
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


class Following:
    """Subscribes to turns that are there. Its coroutines run on the portal's loop.

    Args:
        client: of the engine.

    Attributes:
        work: what is done for turns of the program.
        subscribers: those of the program.
    """

    def __init__(self, client: EngineClient) -> None:
        self._engine = client.engine
        self.work = TurnWork(client.app_name)
        self.subscribers = Subscribers(client.engine, self._go_on_soon)

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
                await self._engine.runner.recover_turn(p.RecoverTurn(key=key, invocation_id=invocation_id))
        except RaygroveError as error:
            subscriber.remove(turn)
            if isinstance(error, UserElsewhereError) and stores > 1:
                # By now it is known where the user is.
                await self.subscribe(turn, after_seq, agent, stores - 1, goes_on=goes_on)
            elif await self._engine.has_successor(error):
                await self.subscribe(turn, after_seq, agent, goes_on=goes_on)
            else:
                turn.fail(error)
        else:
            turn.mark_started(agent, 0 if goes_on else after_seq)
            if turn.is_detached:
                # Its subscription may have come after the end of that.
                await subscriber.drop_turn(turn)
