"""How a driver hears of its turns: one long poll for all that it has started, and one for each that it has joined."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from actors.errors import InvocationNotFoundError, RaygroveError, SessionNotFoundError
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs.session import SessionRef
from runtime.driver.turn import Turn

Where = tuple[SessionKey, str]

UNSUBSCRIBE_S = 2.0
"""How long a Session actor is waited for that may be gone, or on its way back."""


class Subscriber:
    """A subscriber of the Session actor with the turns that it follows.

    Args:
        session: the Session actor.
        name: the subscriber's.
        lasts: keep a poll waiting while no turn runs, so that the next one need not begin with it; otherwise the subscriber
            goes with its last turn.
    """

    def __init__(self, session: SessionRef, name: str, *, lasts: bool) -> None:
        self.name = name
        self._session = session
        self._lasts = lasts
        self._turns: dict[Where, list[Turn]] = {}
        self._expected = 0
        self._unclaimed: dict[Where, list[p.TurnNews]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._ack = 0
        self._mailbox = ""

    def follow(self, turn: Turn) -> None:
        """Hand the news of a turn to it."""
        self._turns.setdefault(turn.where, []).append(turn)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.ensure_future(self._poll())

    def leave(self, turn: Turn) -> None:
        """The turn has ended, or never began."""
        turns = self._turns.get(turn.where, [])
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._turns.pop(turn.where, None)

    def expect(self) -> None:
        """A turn is being started whose id may turn out to be another: keep news that nobody claims."""
        self._expected += 1

    def rename(self, turn: Turn, invocation_id: str) -> None:
        """An answer goes on with the turn that asked. News of it may have come already."""
        self.leave(turn)
        turn.rename(invocation_id)
        self.follow(turn)
        for news in self._unclaimed.pop(turn.where, ()):
            self._feed(news)

    def known(self) -> None:
        """The turn that was expected has its id, or has failed."""
        self._expected -= 1
        if not self._expected:
            self._unclaimed.clear()

    def is_done(self) -> bool:
        """True when its last turn has ended and nobody needs it any more."""
        return not self._lasts and self._poller is not None and self._poller.done()

    async def _poll(self) -> None:
        try:
            while self._turns or self._lasts:
                news = await self._session.poll(p.Poll(subscriber=self.name, ack=self._ack, outbox=self._mailbox))
                self._ack = news.number
                for of_turn in news.turns:
                    self._feed(of_turn)
                if not news.known or news.outbox != self._mailbox:
                    self._mailbox = news.outbox
                    await self._subscribe_again()
            await self._session.unsubscribe(p.Unsubscribe(subscriber=self.name))
        except RaygroveError as error:
            self.fail(error)

    def _feed(self, news: p.TurnNews) -> None:
        where = (news.key, news.invocation_id)
        turns = list(self._turns.get(where, ()))
        if not turns and self._expected:
            self._unclaimed.setdefault(where, []).append(news)
        for turn in turns:
            turn.feed(news.events, news.outcome)
            if news.outcome is not None:
                self.leave(turn)

    async def _subscribe_again(self) -> None:
        """The Session actor does not know the subscriber, or does not any more: tell it where every turn stands."""
        for (key, invocation_id), turns in list(self._turns.items()):
            after_seq = min(turn.after_seq for turn in turns)
            # A turn that is not open yet is followed from its opening on.
            with suppress(InvocationNotFoundError, SessionNotFoundError):
                await self._session.subscribe(
                    p.Subscribe(subscriber=self.name, key=key, invocation_id=invocation_id, after_seq=after_seq)
                )

    def fail(self, error: BaseException) -> None:
        """Nothing more will be heard of the turns."""
        turns = [turn for turns in self._turns.values() for turn in turns]
        self._turns.clear()
        for turn in turns:
            turn.fail(error)

    async def unsubscribe(self) -> None:
        """Have nothing kept any more for the subscriber. Should it not be heard of, it is forgotten in time."""
        with suppress(RaygroveError, TimeoutError):
            async with asyncio.timeout(UNSUBSCRIBE_S):
                await self._session.unsubscribe(p.Unsubscribe(subscriber=self.name))

    async def close(self, error: BaseException) -> None:
        """Follow nothing any more; turns that have not ended fail with `error`."""
        if self._poller is not None:
            self._poller.cancel()
            with suppress(asyncio.CancelledError):
                await self._poller
        self.fail(error)
