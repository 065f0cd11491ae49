"""The model calls of one run, counted against the turn's limit."""

from __future__ import annotations

from actors.errors import LlmCallsLimitExceededError
from actors.messages import protocol as p
from actors.refs.runner import RunnerRef


class LlmBudget:
    """Counts calls out of the allowance that came with the run, or asks the Runner for each.

    Args:
        message: what is run.
        runner: the Runner.
        counts: the actor's figures.

    Attributes:
        used: calls out of the allowance.
    """

    def __init__(self, message: p.Invoke, runner: RunnerRef, counts: dict[str, int]) -> None:
        self._message = message
        self._runner = runner
        self._counts = counts
        self.used = 0

    async def take_call(self) -> None:
        """Count one call. Raises LlmCallsLimitExceededError, FencedError."""
        message = self._message
        self._counts["llm_calls"] += 1
        if message.llm_calls is None:
            await self._runner.take_llm_call(p.TakeLlmCall(turn=message.turn, agent=message.agent))
        elif self.used >= message.llm_calls:
            raise LlmCallsLimitExceededError(message.agent, message.config.max_llm_calls)
        else:
            self.used += 1
