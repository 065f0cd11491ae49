"""The client of an agent's actor."""

from __future__ import annotations

from typing import cast

from actors.messages import protocol as p
from actors.refs.base import Ref


class AgentRef(Ref):
    """A client of an agent's actor."""

    async def invoke(self, message: p.Invoke) -> p.AnyOutcome:
        """Run the agent and return how the run ended."""
        return cast(p.AnyOutcome, await self._ask(message, p.Outcome))

    async def rebuild_requests(self, message: p.RebuildRequests) -> p.ModelCallsReply:
        """Build requests of its model calls again. Raises SessionNotFoundError, StoreError."""
        return await self._ask(message, p.ModelCallsReply)

    async def stop_run(self, message: p.StopRun) -> None:
        """Stop runs of a turn; returns when they have ended, or cannot say anything more."""
        await self._ask(message, p.Ack)

    async def statistics(self) -> p.Statistics:
        """The figures of the agent."""
        return await self._ask(p.GetStatistics(), p.Statistics)
