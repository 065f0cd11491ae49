"""Hearing of changes of states that sessions share, so that turns begin without a look at the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from actors.layers.sharing.messages import WatchStates
from actors.layers.sharing.peers import Peers
from actors.layers.sharing.rules import LEASE_S, RENEW_S, HeldLeases

logger = logging.getLogger(__name__)

UNUSED_S = 5.0
"""Leases are renewed for so long after they were last used: a deployment in which no turn begins sends nothing."""


class StatesWatch:
    """Keeps leases of all other Session actors, as long as they are used.

    Args:
        peers: these.
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
