"""A subscriber of the Session actor: it polls for news of several turns at once and feeds them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from actors.errors import (
    InvocationNotFoundError,
    RaygroveError,
    RepeatMismatchError,
    SessionNotFoundError,
    UpgradingError,
    UserArrivingError,
    UserElsewhereError,
)
from actors.messages import protocol as p
from actors.messages.session import SessionKey, TurnKey
from actors.refs import SessionRef
from runtime.driver.turns.state import TurnState, Woken, wake_together
from runtime.engine.interface import Engine

SEEK_S = 0.5
"""Time between two attempts to subscribe to a turn that a restarted Session actor does not know."""

SEEK_TIMES = 60
"""After so many attempts such a turn is given up, unless it is still being started."""

REST_S = 0.002
"""How long a program that has followed its last turn to the end may take to start the next one before it polls again."""

UNSUBSCRIBE_S = 2.0
"""How long to wait for a Session actor that may have ended, or is being restarted."""


OnLost = Callable[[Sequence[TurnState], UpgradingError], None]
"""Takes turns that go on in another deployment."""

OnGiven = Callable[[TurnState, p.AnyOutcome], None]
"""Takes a turn that has ended whose message was given to it, and its outcome."""


def ignored(turn: TurnState, outcome: p.AnyOutcome) -> None:
    """Such a turn ends with the outcome."""
    turn.feed((), outcome)


class PollPause:
    """A short wait, which ends early when there is something to do."""

    def __init__(self) -> None:
        self._over: asyncio.Future[None] | None = None

    async def wait_for(self, seconds: float) -> None:
        """Wait for so long, or until `end_wait`."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        timer = loop.call_later(seconds, self.end_wait)
        try:
            await self._over
        finally:
            timer.cancel()

    def end_wait(self) -> None:
        """End the wait, if there is one."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


class Starting:
    """Turns that are starting: their news may come under ids that they get only then.

    Attributes:
        unclaimed: news of unknown turns, kept as long as any is.
    """

    def __init__(self) -> None:
        self.turns = 0
        self.unclaimed: dict[TurnKey, list[p.TurnNews]] = {}

    def begin(self) -> None:
        """A turn starts, until `end`."""
        self.turns += 1

    def end(self) -> None:
        """A turn has started, or cannot."""
        self.turns -= 1
        if not self.turns:
            self.unclaimed.clear()


class Subscriber:
    """Polls one Session actor for news of its turns. Lives on the portal's loop.

    Args:
        name: the subscriber's, by which the Session actor knows it.
        on_lost: gets the turns that it was feeding when their deployment is upgraded; None: they fail.
        on_given: gets a turn and its outcome that has ended, and that the message of this program was given to.
        is_permanent: keep a poll waiting while no turn runs, so that the next turn need not begin with one; only a turn that
            follows at once does, when it is on its way. Otherwise the subscriber ends with its last turn.

    Attributes:
        starting: knows the turns that start: one may turn out to have another id, see `rename`.
    """

    def __init__(
        self, session: SessionRef, name: str, on_lost: OnLost | None = None, on_given: OnGiven = ignored, *, is_permanent: bool
    ) -> None:
        self.name = name
        self._on_lost = on_lost
        self._on_given = on_given
        self._session = session
        self._is_permanent = is_permanent
        self._turns: dict[TurnKey, list[TurnState]] = {}
        self.starting = Starting()
        self._unclaimed = self.starting.unclaimed
        self._pause = PollPause()
        # The last event of each turn that has come.
        self._heads: dict[TurnKey, int] = {}
        self._poller: asyncio.Task[None] | None = None
        self._seeker: asyncio.Task[None] | None = None
        # Turns that the Session actor does not know, and how often it was asked for them.
        self._missing: dict[TurnKey, int] = {}
        self._asks_again = False
        self._ack = 0
        self._outbox = ""

    def add(self, turn: TurnState) -> None:
        """Feed a turn with its news."""
        self._turns.setdefault(turn.turn_key, []).append(turn)
        self._pause.end_wait()
        if self._poller is None or self._poller.done():
            self._poller = asyncio.ensure_future(self._poll())

    def remove(self, turn: TurnState) -> None:
        """Feed a turn no more: it has ended, or could not start."""
        key = turn.turn_key
        turns = self._turns.get(key, [])
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._forget(key)

    def _forget(self, turn: TurnKey) -> None:
        self._turns.pop(turn, None)
        self._heads.pop(turn, None)

    def joins(self, turn: TurnState) -> bool:
        """Feed one more object of a turn that it feeds already, without a word to the Session actor.

        False when the other is not subscribed yet, or may not get all events that this one wants: as long as none has come, it is
        not known that there is an event where the other begins.
        """
        peers = [each for each in self._turns.get(turn.turn_key, ()) if each.is_started and not each.is_detached]
        if not peers:
            return False
        head_seq = self._heads.get(turn.turn_key)
        if head_seq is None:
            head_seq = min(peer.after_seq for peer in peers)
            if turn.after_seq < head_seq:
                return False
        turn.join(peers[0], head_seq)
        self.add(turn)
        return True

    def follows(self, turn: TurnState) -> bool:
        """True when it feeds the turn."""
        return turn in self._turns.get(turn.turn_key, ())

    def has(self, turn: TurnKey) -> bool:
        """True when it feeds any object of that turn."""
        return turn in self._turns

    def rename(self, turn: TurnState, invocation_id: str, opened_seq: int, *, is_joined: bool = False) -> None:
        """Give a turn the id under which it continues, and the news of it that have come already.

        Args:
            opened_seq: see TurnState.
            is_joined: it was there before: its news may have come to another object of it that has ended since.
        """
        is_missing = is_joined or turn.turn_key in self._missing or self._asks_again
        self.remove(turn)
        turn.rename(invocation_id)
        turn.opened_seq = opened_seq
        # Another object of that turn may have been fed with its events before.
        if not self.joins(turn):
            self.add(turn)
        if is_missing:
            # The Session actor that knew this subscriber may be lost since, and was asked for the other id only.
            self._missing[turn.turn_key] = 0
            self._seek_soon()
        for news in self._unclaimed.pop(turn.turn_key, ()):
            self._feed(news)

    def is_done(self) -> bool:
        """True when its last turn has ended and it takes no other."""
        return not self._is_permanent and self._poller is not None and self._poller.done()

    async def _poll(self) -> None:
        try:
            while self._turns or self._is_permanent:
                news = await self._session.ask(p.Poll(subscriber=self.name, ack=self._ack, outbox=self._outbox))
                self._ack = news.number
                woken: Woken = []
                for of_turn in news.turns:
                    self._feed(of_turn, woken)
                wake_together(woken)
                if not news.known or news.outbox != self._outbox:
                    self._outbox = news.outbox
                    await self._subscribe_again()
                if not self._turns and self._is_permanent:
                    # The processor is for who waits for the end. The next turn is begun first, and then polled for.
                    await self._pause.wait_for(REST_S)
            await self._session.ask(p.Unsubscribe(subscriber=self.name))
        except RaygroveError as error:
            self.fail(error)

    def _feed(self, news: p.TurnNews, woken: Woken | None = None) -> None:
        key = (news.key, news.invocation_id)
        turns = self._turns.get(key)
        if turns is None:
            if self.starting.turns:
                self._unclaimed.setdefault(key, []).append(news)
            return
        left: list[TurnState] = []
        for turn in turns:
            # The end of the pause before an answer may come late, or twice: it is not that of the answer.
            outcome = news.outcome if not 0 < news.opened_seq < turn.opened_seq else None
            if outcome is not None and turn.message is not None:
                turn.feed(news.events, None, news.answers, woken)
                self._on_given(turn, outcome)
                continue
            turn.feed(news.events, outcome, news.answers, woken)
            if outcome is None:
                left.append(turn)
        if not left:
            self._forget(key)
            return
        self._turns[key] = left
        head_seq = next((event.seq for event in reversed(news.events) if event.seq), 0)
        if head_seq > self._heads.get(key, 0):
            self._heads[key] = head_seq
        if news.is_dropped:
            self._missing[key] = 0
            self._seek_soon()

    async def _subscribe_again(self) -> None:
        """Subscribe to every turn after its last event: the Session actor does not know this subscriber, or no longer does."""
        self._asks_again = True
        try:
            for turn in list(self._turns):
                if not await self._is_found(turn):
                    self._missing[turn] = 0
        finally:
            self._asks_again = False
        if self._missing:
            self._seek_soon()

    def _seek_soon(self) -> None:
        if self._seeker is None or self._seeker.done():
            self._seeker = asyncio.ensure_future(self._seek())

    async def _is_found(self, turn: TurnKey) -> bool:
        """Subscribe to a turn after its last event. False when it may yet begin, or its user is being moved."""
        turns = self._turns.get(turn)
        if not turns:
            return True
        key, invocation_id = turn
        after_seq = min(each.after_seq for each in turns)
        # Before it asks: the reply may come after news of what has begun meanwhile.
        has_begun = turn in self._heads or any(each.has_begun for each in turns)
        started = [each for each in turns if each.is_started]
        # An answer has not begun its turn.
        fingerprint = next((each.fingerprint for each in turns if each.fingerprint and not each.is_answer), "")
        asked = p.Subscribe(
            subscriber=self.name, key=key, invocation_id=invocation_id, after_seq=after_seq, fingerprint=fingerprint
        )
        try:
            await self._session.subscribe(asked)
        except (UserElsewhereError, UserArrivingError):
            return False
        except RepeatMismatchError as error:
            # Those without a request follow whichever turn has the id.
            self._fail([each for each in started if each.fingerprint == fingerprint], error)
        except (InvocationNotFoundError, SessionNotFoundError):
            if has_begun:
                # It was taken back, or deleted with its session.
                self._fail(started, InvocationNotFoundError(invocation_id, key.session))
        else:
            return True
        return turn not in self._turns

    async def _seek(self) -> None:
        """Subscribe to turns as soon as the Session actor knows them.

        A turn that waited in line, or that was not stored yet, is not known after a loss until the Runner has asked for it again.
        That request subscribes the driver that started the turn, and no other that has joined it. It never comes where the driver
        that started the turn was lost, too: then one that has asked for the same turn asks again, and one that only follows it
        gets InvocationNotFoundError.
        """
        try:
            while self._missing:
                await asyncio.sleep(SEEK_S)
                for turn in list(self._missing):
                    if await self._is_found(turn):
                        del self._missing[turn]
                    else:
                        self._missing[turn] += 1
                        self._ask_again_or_give_up(turn)
        except RaygroveError as error:
            self.fail(error)

    def _ask_again_or_give_up(self, turn: TurnKey) -> None:
        """Send the request again that has joined a turn before it had begun, and fail a turn that was sought often enough.

        One that is still being started will be opened yet.
        """
        for each in self._turns.get(turn, ()) if turn not in self._heads else ():
            if each.ask_again is not None:
                ask_again, each.ask_again = each.ask_again, None
                ask_again(each)
        if self._missing[turn] >= SEEK_TIMES:
            started = [each for each in self._turns.get(turn, ()) if each.is_started]
            self._fail(started, InvocationNotFoundError(turn[1], turn[0].session))

    def _fail(self, turns: Sequence[TurnState], error: RaygroveError) -> None:
        for turn in turns:
            self.remove(turn)
            turn.fail(error)

    def fail(self, error: BaseException) -> None:
        """Hand on all turns, or end them with an error: no more news will come."""
        turns = [turn for turns in self._turns.values() for turn in turns]
        self._turns.clear()
        # One of its tasks may still look for them.
        self._missing.clear()
        if turns and self._on_lost is not None and isinstance(error, UpgradingError):
            self._on_lost(turns, error)
            return
        for turn in turns:
            turn.fail(error)

    async def drop_turn(self, turn: TurnState) -> None:
        """Stop following a turn that goes on; the Session actor keeps no more news of it for this subscriber."""
        self.remove(turn)
        if turn.turn_key in self._turns:
            return
        if self._turns or self._is_permanent:
            await self.unsubscribe(*turn.turn_key)
            return
        if self._poller is not None:
            self._poller.cancel()
        await self.unsubscribe()

    async def unsubscribe(self, key: SessionKey | None = None, invocation_id: str = "") -> None:
        """Have the Session actor drop what it keeps for this subscriber, or of one turn. Unanswered, it does so in time."""
        with suppress(RaygroveError, TimeoutError):
            async with asyncio.timeout(UNSUBSCRIBE_S):
                await self._session.ask(p.Unsubscribe(subscriber=self.name, key=key, invocation_id=invocation_id))

    async def close(self, error: BaseException) -> None:
        """Stop polling; turns that have not ended fail with `error`."""
        for task in (self._poller, self._seeker):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self.fail(error)


class Subscribers:
    """Makes subscribers and closes them. Lives on the portal's loop.

    Args:
        on_lost, on_given: see Subscriber.
    """

    def __init__(self, engine: Engine, on_lost: OnLost, on_given: OnGiven = ignored) -> None:
        self._engine = engine
        self._on_lost = on_lost
        self._on_given = on_given
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
        subscriber = Subscriber(self._engine.session.of(key), name, self._on_lost, self._on_given, is_permanent=False)
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
