"""The client of the Runner actor."""

from __future__ import annotations

from typing import cast

import msgspec

from actors.errors import (
    ActorRestartsError,
)
from actors.messages import protocol as p
from actors.refs.base import Ref


class RunnerRef(Ref):
    """A client of the Runner actor."""

    async def start_turn(self, message: p.StartTurn) -> p.TurnStarted:
        """Run a turn; returns when it is open. Raises what is wrong with it, nothing being stored then."""
        try:
            return await self._ask(message, p.TurnStarted, once=True)
        except ActorRestartsError:
            # Nobody knows how far it came: if the turn is there, it is joined.
            return await self._ask(msgspec.structs.replace(message, repeatable=True), p.TurnStarted)

    async def cancel_turn(self, message: p.CancelTurn) -> None:
        """Stop a turn; returns when its log is sealed."""
        await self._ask(message, p.Ack)

    async def run_child(self, message: p.RunChild) -> p.AnyOutcome:
        """Run an agent below a supervisor and return how it ended. Raises UnknownAgentError, FencedError."""
        return cast(p.AnyOutcome, await self._ask(message, p.Outcome))

    async def stop_branch(self, message: p.StopBranch) -> None:
        """Stop every run on a branch. Raises FencedError."""
        await self._ask(message, p.Ack)

    async def take_llm_call(self, message: p.TakeLlmCall) -> None:
        """Count a model call. Raises LlmCallsLimitExceededError."""
        await self._ask(message, p.Ack)

    async def recover_turn(self, message: p.RecoverTurn) -> None:
        """See that a turn runs that is open in the log, whichever Runner ran it before."""
        await self._ask(message, p.Ack)

    async def statistics(self) -> p.Statistics:
        """What it has done, and what every live agent has."""
        return await self._ask(p.GetStatistics(), p.Statistics)

    async def stop(self) -> None:
        """Cancel the turns that run, and stop every agent."""
        await self._ask(p.Stop(), p.Ack)
