"""A driver's subscribers: one for all turns that it starts, and one for each that it joins, or starts again meanwhile."""

from __future__ import annotations

import asyncio
import uuid

from actors.messages.session import SessionKey
from actors.refs.session import SessionRef
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
