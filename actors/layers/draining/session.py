"""What a Session actor knows of a drain: that it goes on, for Runners that are started again, and which readers lag."""

from __future__ import annotations

import asyncio

from actors.actor import Handlers
from actors.layers.draining.messages import Drain, Draining, GetDrain
from actors.layers.draining.rules import DrainLease
from actors.session.service import SessionService
from actors.session.subscribers.subscriptions import LAGGING
from actors.session.turns.parts import SessionParts


class DrainNotes(SessionService):
    """Answers Drain and GetDrain. A Session actor refuses nothing itself: what a Runner has accepted may begin."""

    def __init__(self, parts: SessionParts) -> None:
        self._subscriptions = parts.subscriptions
        self._lease = DrainLease()

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            Drain: self.note_drain,
            GetDrain: self.get_drain,
        }

    async def note_drain(self, message: Drain) -> Draining:
        """Keep that the deployment drains, and tell how many subscribers have news to fetch."""
        self._lease.renew(message.lease_s, message.since_s, asyncio.get_running_loop().time())
        return Draining(left=self._subscriptions.counts[LAGGING])

    async def get_drain(self, _: GetDrain) -> Drain:
        """Tell for how long yet the deployment drains."""
        return Drain(lease_s=self._lease.left_s(asyncio.get_running_loop().time()), since_s=self._lease.since_s)
