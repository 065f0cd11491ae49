"""The client of the actor that limits model calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.layers.limiter.messages import (
    AcquirePermit,
    ChangeModelLimits,
    GetModelLimits,
    GetWaitingCalls,
    LimitedModel,
    ModelWait,
    ReleasePermit,
    RenewPermits,
)
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs.base import Ref


class LimiterRef(Ref):
    """A client of the actor that limits model calls."""

    async def acquire(self, message: AcquirePermit) -> bool:
        """Wait until a call may begin or be repeated; False if it may not be repeated, or was released meanwhile."""
        reply = await self.ask(message)
        while reply.again:
            reply = await self.ask(message)
        return reply.granted

    async def release(self, message: ReleasePermit) -> None:
        """Give a permit back, whether it was granted or is still waited for."""
        await self.ask(message)

    async def renew(self, message: RenewPermits) -> None:
        """Renew the lease of a process, and of the permits that it holds."""
        await self.ask(message)

    async def waiting_calls(self, session: SessionKey) -> Sequence[ModelWait]:
        """The model calls of a session that wait, in the order in which they came."""
        return (await self.ask(GetWaitingCalls(session=session))).calls

    async def limits(self) -> Sequence[LimitedModel]:
        """The limits of models."""
        return (await self.ask(GetModelLimits())).limits

    async def change_limits(self, model: str, change: Mapping[str, float | None] | None) -> Sequence[LimitedModel]:
        """Change limits, or with None have those of the settings again. Raises RequestError, DefinitionError, ClusterError."""
        changed = dict(change) if change is not None else None
        return (await self.ask(ChangeModelLimits(model=model, change=changed))).limits

    async def statistics(self) -> p.Statistics:
        """Return figures of each model's calls."""
        return await self.ask(p.GetStatistics())

    async def stop(self) -> None:
        """Refuse all calls that wait."""
        await self.ask(p.Stop())
