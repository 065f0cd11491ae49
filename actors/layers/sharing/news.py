"""Session actors over one store tell each other of changes of states that sessions share, before anybody else hears of them.

So turns begin without a look at the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from actors.actor import Handlers
from actors.interfaces.stores import PutState, Write
from actors.layers.sharing.messages import ForgetStates, StatesWatched, WatchStates
from actors.layers.sharing.rules import LEASE_S, RENEW_S, VERIFIED_S, GivenLeases, HeldLeases
from actors.messages import protocol as p
from actors.messages.session import SessionKey, Shard
from actors.refs import SessionRef
from actors.session.environment import FindPeers
from actors.session.service import SessionParts, SessionService

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
