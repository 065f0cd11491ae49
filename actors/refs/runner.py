"""The client of the Runner actor."""

from __future__ import annotations

import msgspec

from actors.errors import ActorRestartsError
from actors.messages import protocol as p
from actors.messages.event import now_s
from actors.messages.session import SessionKey
from actors.refs.base import Ref


class RunnerRef(Ref):
    """A client of the Runner actor."""

    @property
    def count(self) -> int:
        """The number of Runners: 1, unless it is a `ShardedRunnerRef`."""
        return 1

    def number_of(self, key: SessionKey) -> int:
        """The number of the Runner that serves a session, from 0."""
        return 0

    async def start_turn(self, message: p.StartTurn) -> p.TurnStarted:
        """Start a turn; returns when it is open. Raises what is wrong with the message; nothing is stored then."""
        sent_s = now_s()
        try:
            return await self._ask(message, (p.TurnStarted,), once=True)
        except ActorRestartsError:
            # The Runner may have opened the turn before it was lost: if the turn is there, it is joined.
            return await self.ask(msgspec.structs.replace(message, repeatable=True, sent_s=sent_s))

    async def resume_turns(self) -> None:
        """Go on with all turns that an earlier deployment has left open. Raises DrainingError, StoreError."""
        await self.ask(p.ResumeTurns())

    async def stop(self, *, leave_turns: bool = False) -> None:
        """Stop every agent, and cancel the turns that run, or leave them open in the log."""
        await self.ask(p.Stop(leave_turns=leave_turns))
