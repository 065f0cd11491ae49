"""Session actors over one store tell each other of changes of states that sessions share: those of users and of the app.

So turns begin without a look at the store. Each actor keeps such states in memory, under leases of the others.

Rules of leases:

- An actor that holds a lease of another one hears of each change there before anybody else hears that it is stored. So a change
  waits for the actors that hold leases, and for one that does not answer until its lease has run out.
- The one that gives a lease counts it from when it gives it, the one that holds it from when it has asked: that is never later.
  Only the pace of the two clocks has to be the same.
- A lease counts from when the one that gives it was known to be the writer of its place. One that was replaced and lives on gives
  none that is longer than what its successor waits for.
- When a lease has run out, changes may have been missed: all that was read before is to be looked at again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from actors.actor import Handlers
from actors.interfaces.stores import PutState, Write
from actors.messages import protocol as p
from actors.messages.protocol.base import Ack, Lane, Message, Request, Route
from actors.messages.session import SessionKey, Shard
from actors.refs import SessionRef
from actors.session.environment import FindPeers
from actors.session.service import SessionParts, SessionService


class StatesWatched(Message, frozen=True, kw_only=True):
    """Reply to WatchStates.

    Attributes:
        for_s: for how long the sender hears of them, in seconds from when it has asked; 0: it does not.
    """

    for_s: float


class WatchStates(Request[StatesWatched], frozen=True, kw_only=True):
    """Tell the sender of each change of a state that sessions share, before anybody else hears that it is stored.

    Attributes:
        shard: the number of the Session actor that asks.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    shard: int


class ForgetStates(Request[Ack], frozen=True, kw_only=True):
    """Read states from the store before they are used again: they were changed there.

    Attributes:
        scopes: their keys; None: any may have been changed, since the sender has taken the place of one that was lost.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    scopes: Sequence[SessionKey] | None = None


LEASE_S = 1.5
"""How long a lease lasts. A change waits so long, at most, for an actor that was lost or cut off."""

RENEW_S = 0.5
"""When a lease is renewed."""

VERIFIED_S = 0.5
"""How long an actor goes without looking whether it is still the writer of its place, if it gives leases."""


class GivenLeases:
    """The leases that an actor has given to others, by the numbers of their shards."""

    def __init__(self) -> None:
        self._until_s: dict[int, float] = {}

    def give(self, shard: int, *, verified_s: float, now_s: float) -> float:
        """Give a lease. Returns how long the other one may count it, in seconds from when it has asked.

        Args:
            verified_s: when this actor was known to be the writer of its place.
        """
        self._until_s[shard] = now_s + LEASE_S
        return LEASE_S - (now_s - verified_s)

    def presume(self, shards: Iterable[int], now_s: float) -> None:
        """Take it that others have leases of the actor in whose place this one is."""
        self._until_s.update(dict.fromkeys(shards, now_s + LEASE_S))

    def held(self, now_s: float) -> Mapping[int, float]:
        """When the leases run out that have not, by shard."""
        return {shard: until_s for shard, until_s in self._until_s.items() if until_s > now_s}


class HeldLeases:
    """The leases that an actor holds, of each of some others.

    Args:
        shards: of these.

    Attributes:
        era: raised whenever changes may have been missed. What was read in another one is to be looked at again.
    """

    def __init__(self, shards: Iterable[int]) -> None:
        self._until_s = dict.fromkeys(shards, 0.0)
        self._first_s = 0.0
        self.era = 0

    def note(self, shard: int, *, asked_s: float, for_s: float, now_s: float) -> None:
        """Note what another one has answered."""
        if now_s >= self._until_s[shard]:
            self.era += 1
        self._until_s[shard] = max(self._until_s[shard], asked_s + for_s)
        self._first_s = min(self._until_s.values())

    def holds(self, now_s: float) -> bool:
        """Whether this actor hears of all changes."""
        return now_s < self._first_s


def may_share(shard: Shard, other: Shard) -> bool:
    """True when some session may belong to both shards, such as that of a Runner and that of a Session actor.

    The heaviest of a few numbers is the heaviest of more as well, unless it is one of those that are more: as many Runners as
    Session actors have nothing to do with each other but one by one.
    """
    return shard.index == other.index or other.index >= shard.of or shard.index >= other.of


logger = logging.getLogger(__name__)

UNUSED_S = 5.0
"""Leases are renewed for so long after they were last used: a deployment in which no turn begins sends nothing."""

EARLY_S = 0.005
"""By how much an event loop may end a pause too early."""


class Peers:
    """Finds clients of the others once.

    Args:
        find: finds them; None: they cannot be reached.

    Attributes:
        shards: those of the others; none if they cannot be reached.
    """

    def __init__(self, shard: Shard, find: FindPeers | None) -> None:
        self.shard = shard
        self.shards = tuple(index for index in range(shard.of) if index != shard.index) if find is not None else ()
        self._find = find
        self._found: Mapping[int, SessionRef] | None = None

    async def of(self, shard: int) -> SessionRef:
        """A client of the one that serves a shard. Raises what the finding of it raises."""
        if self._found is None:
            assert self._find is not None
            self._found = await self._find()
        return self._found[shard]


class StatesWatch:
    """Keeps leases of all other Session actors, as long as they are used.

    Args:
        clock: seconds that go on, whatever this process does.
    """

    def __init__(self, peers: Peers, clock: Callable[[], float]) -> None:
        self._peers = peers
        self._clock = clock
        self._leases = HeldLeases(peers.shards)
        self._used_s = 0.0
        self._renewing: asyncio.Task[None] | None = None

    @property
    def era(self) -> int | None:
        """Names the time in which this actor hears of all changes; None: it may not hear of one now."""
        if not self._peers.shards:
            return None
        self._used_s = now_s = self._clock()
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.get_running_loop().create_task(self._renew())
        return self._leases.era if self._leases.holds(now_s) else None

    async def close(self) -> None:
        """Renew no lease any more."""
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing

    async def _renew(self) -> None:
        while self._clock() - self._used_s < UNUSED_S:
            await asyncio.gather(*map(self._ask, self._peers.shards))
            await asyncio.sleep(RENEW_S)

    async def _ask(self, shard: int) -> None:
        asked_s = self._clock()
        try:
            async with asyncio.timeout(LEASE_S):
                reply = await (await self._peers.of(shard)).ask(WatchStates(shard=self._peers.shard.index))
        except Exception:
            # Turns ask the store meanwhile, and tell of what is wrong with that.
            logger.debug("no lease of Session actor %s", shard, exc_info=True)
        else:
            self._leases.note(shard, asked_s=asked_s, for_s=reply.for_s, now_s=self._clock())


class StateNews(SessionService):
    """Answers WatchStates and ForgetStates: gives leases, tells those that hold them of changes, and hears of theirs.

    An actor that has taken the place of one that was lost tells of all states: that one may have stored what no other one knows.
    """

    def __init__(self, parts: SessionParts) -> None:
        shared, environment = parts.shared, parts.environment
        self._access = access = parts.access
        peers, clock = Peers(parts.shard, environment.peers), environment.clock
        self._shared = shared
        self._watch = StatesWatch(peers, clock)
        self._peers = peers
        self._clock = clock
        self._leases = GivenLeases()
        self._telling: dict[int, asyncio.Future[None]] = {}
        if peers.shards:
            shared.era = lambda: self._watch.era
            access.after_commit = self._tell_written
            if environment.is_successor:
                access.on_first_use = self._tell_all

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            WatchStates: self.watch_states,
            ForgetStates: self.forget_states,
        }

    async def watch_states(self, message: WatchStates) -> StatesWatched:
        """Give a lease to another Session actor. Raises StoreError, WriterReplacedError."""
        verified_s = await self._access.verified_s(VERIFIED_S)
        while (telling := self._telling.get(message.shard)) is not None:
            # What is not told yet would be missed.
            await asyncio.wait([telling])
        if verified_s is None:
            return StatesWatched(for_s=0.0)
        return StatesWatched(for_s=self._leases.give(message.shard, verified_s=verified_s, now_s=self._clock()))

    async def forget_states(self, message: ForgetStates) -> p.Ack:
        """Hear of changes. Raises StoreError."""
        # What another process begins in this one's place, before it is fenced, would be begun without these changes.
        await self._access.take_place()
        self._shared.note_changed(message.scopes)
        return p.Ack()

    async def close(self) -> None:
        """Keep no leases any more."""
        await self._watch.close()

    async def _tell_all(self) -> None:
        self._leases.presume(self._peers.shards, self._clock())
        await self._tell(ForgetStates())

    async def _tell_written(self, writes: Sequence[Write]) -> None:
        if PutState in map(type, writes) and (scopes := _shared(writes)):
            await self._tell(ForgetStates(scopes=scopes))

    async def _tell(self, message: ForgetStates) -> None:
        held = self._leases.held(self._clock())
        if held:
            await asyncio.gather(*(self._tell_one(shard, until_s, message) for shard, until_s in held.items()))

    async def _tell_one(self, shard: int, until_s: float, message: ForgetStates) -> None:
        """Tell one of them, until it has answered, or its lease has run out."""
        self._telling[shard] = told = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(max(until_s - self._clock(), 0.0)):
                await (await self._peers.of(shard)).ask(message)
        except Exception:
            logger.debug("Session actor %s was not told of a change", shard, exc_info=True)
            await asyncio.sleep(max(until_s - self._clock(), 0.0) + EARLY_S)
        finally:
            del self._telling[shard]
            told.set_result(None)


def _shared(writes: Iterable[Write]) -> list[SessionKey]:
    return list(dict.fromkeys(write.key for write in writes if isinstance(write, PutState) and not write.key.session))
