"""An agent reads the messages that wait for its turn before it calls its model."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from actors.behaviours.interceptor import RunInterceptor, TakeStep
from actors.errors import StoreError
from actors.interfaces.context import Context
from actors.messages.protocol.outcomes import AnyOutcome

logger = logging.getLogger(__name__)


class ReadsMessages(RunInterceptor):
    """Reads before each step."""

    def take_step(self, step: TakeStep) -> Awaitable[AnyOutcome | None]:
        """Take the step with what was read."""
        return self._after_reading(step) if self.run.context.has_messages else self.next.take_step(step)

    async def _after_reading(self, step: TakeStep) -> AnyOutcome | None:
        await read_messages(self.run.context)
        return await self.next.take_step(step)


async def read_messages(context: Context) -> None:
    """Read the messages that wait for a run, if the store can be reached. Raises FencedError."""
    try:
        await context.inbox.read()
    except StoreError as error:
        logger.warning("messages to agent %s are read later: %s", context.agent_name, error)
