"""The client of the actor that limits models."""

from __future__ import annotations

from actors.messages import protocol as p
from actors.refs.base import Ref


class LimiterRef(Ref):
    """A client of the actor."""

    async def acquire(self, message: p.AcquirePermit) -> bool:
        """Wait until a call may begin, or may be repeated; False: it may not be repeated, or was given up meanwhile."""
        return (await self._ask(message, p.PermitReply)).granted

    async def release(self, message: p.ReleasePermit) -> None:
        """A call is over, or is not wanted any more."""
        await self._ask(message, p.Ack)

    async def renew(self, message: p.RenewPermits) -> None:
        """A process lives, and holds these permits."""
        await self._ask(message, p.Ack)

    async def statistics(self) -> p.Statistics:
        """What each model has been asked."""
        return await self._ask(p.GetStatistics(), p.Statistics)

    async def stop(self) -> None:
        """Let nobody wait any more."""
        await self._ask(p.Stop(), p.Ack)
