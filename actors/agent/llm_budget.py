"""What one run may do, counted against the limits and the budget of its turn."""

from __future__ import annotations

from collections.abc import Callable

from actors.agent.environment import AgentEnvironment
from actors.errors import LlmCallsLimitExceededError
from actors.interfaces.model import Model
from actors.messages import protocol as p
from actors.messages.llm.model import LlmRequest
from actors.rules.accounting.budgets import tokens_of

MAY_SPEND = p.MaySpend()
"""There is nothing against it."""


class LlmBudget:
    """Implements `CallBudget`: counts calls out of the allowance that came with the run, and may ask the Runner for further ones.

    Where the turn has a budget, it asks the Session actor as well, which knows what the turn has used.

    Args:
        message: what is run.
        environment: what the agents of this process share.
        counts: the actor's figures.

    Attributes:
        used: calls out of the allowance.
        limited: gives a model within its limits.
    """

    used = 0
    limited: Callable[[Model], Model] = staticmethod(lambda model: model)

    def __init__(self, message: p.Invoke, environment: AgentEnvironment, counts: dict[str, int]) -> None:
        self._message = message
        self._environment = environment
        self._counts = counts

    def take_free_llm_call(self) -> bool:
        """Count one call, if it is one of those that came with the run, and no budget has to be asked."""
        if self._message.config.budgets or self.used >= self._message.llm_calls:
            return False
        return self._is_allowed()

    async def take_llm_call(self, request: LlmRequest, model: str) -> p.MaySpend | p.AskForMore:
        """Count one call. Returns what is to be done: the call, perhaps of another model, or a question.

        Args:
            request: what the model is to be asked.
            model: the model's name.

        Raises:
            LlmCallsLimitExceededError, BudgetExceededError, NoPriceError, FencedError: it may not be made.
        """
        if not self._is_allowed():
            await self._ask_for_one()
        if not self._message.config.budgets:
            return MAY_SPEND
        return await self._environment.session.reserve(self._reservation(request, model))

    async def take_optional_llm_call(self, request: LlmRequest, model: str) -> p.MaySpend | p.DoWithout:
        """Count one call that the run can do without. Returns whether it is made, perhaps of another model.

        Args as those of `take_llm_call`. Raises LlmCallsLimitExceededError, NoPriceError, FencedError.
        """
        reply: p.MaySpend | p.DoWithout = MAY_SPEND
        if self._message.config.budgets:
            reply = await self._environment.session.reserve_if_room(self._reservation(request, model, is_optional=True))
        if isinstance(reply, p.MaySpend) and not self._is_allowed():
            await self._ask_for_one()
        return reply

    def model_named(self, name: str) -> Model:
        """The model of a name, within its limits. Raises UnknownModelError."""
        return self.limited(self._environment.resolve(self._message.agent, name))

    def _is_allowed(self) -> bool:
        """Count one call. True when it is one of those that came with the run."""
        self._counts["llm_calls"] += 1
        if self.used >= self._message.llm_calls:
            return False
        self.used += 1
        return True

    async def _ask_for_one(self) -> None:
        message = self._message
        if message.asks_for_more:
            await self._environment.runner.take_llm_call(p.TakeLlmCall(turn=message.turn, agent=message.agent))
        else:
            raise LlmCallsLimitExceededError(message.agent, message.config.max_llm_calls)

    def _reservation(self, request: LlmRequest, model: str, *, is_optional: bool = False) -> p.ReserveSpending:
        message = self._message
        return p.ReserveSpending(
            turn=message.turn,
            agent=message.agent,
            branch=message.branch,
            model=model,
            input_tokens=tokens_of(request),
            is_optional=is_optional,
        )

    async def take_tool_calls(self, unstored: int) -> p.MaySpend | p.AskForMore:
        """Check that calls of tools may be run. Returns what is to be done.

        Args:
            unstored: so many of them are not in the log yet.

        Raises:
            BudgetExceededError, FencedError: they may not.
        """
        message = self._message
        if any(budget.tool_calls is not None for budget in message.config.budgets):
            return await self._environment.session.reserve(
                p.ReserveSpending(turn=message.turn, agent=message.agent, branch=message.branch, tool_calls=unstored)
            )
        return MAY_SPEND
