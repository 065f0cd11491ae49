"""Running a turn again in its Runner."""

from __future__ import annotations

import msgspec

from actors.actor import Handlers
from actors.layers.retries.messages import RetryTurn, TurnRetried
from actors.messages import protocol as p
from actors.runner.service import RunnerParts, RunnerService


class RunnerRetries(RunnerService):
    """Answers RetryTurn, which it passes on to the Session actor."""

    def __init__(self, parts: RunnerParts) -> None:
        self._place = parts.place
        self._session = parts.session
        self._recovery = parts.recovery

    def handlers(self) -> Handlers:
        """Its message."""
        return {RetryTurn: self.retry_turn}

    async def retry_turn(self, message: RetryTurn) -> TurnRetried:
        """Run a turn on that has failed. One that runs already goes on.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn.
            RequestError: it has not failed.
            DrainingError: the deployment is about to be stopped.
            SessionBusyError: another turn of the session runs.
            StoreError: it could not be stored.
        """

        async def ask(running: p.TurnRef | None) -> p.ResumeTurnReply:
            asked = msgspec.structs.replace(message, runner=self._place.runner_id, running=running)
            reply = await self._session.ask(asked)
            # It comes from Runners only.
            assert not isinstance(reply, TurnRetried)
            return reply

        running = await self._recovery.run_again((message.key, message.invocation_id), ask)
        if running is None:
            # It has ended meanwhile.
            return TurnRetried(agent="", after_seq=0)
        return TurnRetried(agent=running.agent, after_seq=running.retried_seq)
