"""Telling other Session actors of changes of states that sessions share, before anybody else hears that they are stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from actors.actor import Handlers
from actors.interfaces.records import PutState, Write
from actors.layers.sharing.messages import ForgetStates, StatesWatched, WatchStates
from actors.layers.sharing.peers import Peers
from actors.layers.sharing.rules import VERIFIED_S, GivenLeases
from actors.layers.sharing.watching import StatesWatch
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.session.service import SessionService
from actors.session.turns.parts import SessionParts

logger = logging.getLogger(__name__)

EARLY_S = 0.005
"""By how much an event loop may end a pause too early."""


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
