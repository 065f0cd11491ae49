"""An agent's model as its behaviour has it: before each call the limits and budgets of the turn are asked (docs/costs.md).

Rules of this file:

- Behaviours call models by an `AllowedCall` alone, which only the budgets give. So no caller can overlook what they say: which
  model is to be called, that the call is the agent's last, or that it is not made.
"""

from __future__ import annotations

import msgspec

from actors.behaviours.lifecycle import tell_of_budgets, told_of_limits
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.context import Context
from actors.interfaces.model import Model, Responses, name_of
from actors.interfaces.telemetry import BudgetTold
from actors.messages.llm.model import LlmRequest
from actors.messages.protocol.log import AskForMore, DoWithout, MaySpend
from actors.rules.prompt import instructions


class AllowedCall(msgspec.Struct, eq=False):
    """A call that limits and budgets have room for.

    Attributes:
        model: the one to call.
        request: the request, with what a budget has changed of it.
    """

    model: Model
    request: LlmRequest

    def responses(self, *, stream: bool) -> Responses:
        """Make the call. Raises ModelResponseError, and what the model raises."""
        return Responses(self.model, self.request, stream=stream)


class BudgetedModel:
    """A model that is called within what the turn may use.

    Args:
        spec: the agent.
        model: its model, or another one that it calls.
        context: the run.
        name: the model's name, by which it has a price; "" for what the model itself says.
    """

    def __init__(self, spec: AgentSpec, model: Model, context: Context, name: str = "") -> None:
        self._spec = spec
        self._model = model
        self._context = context
        self.name = name or name_of(model)

    async def allowed(self, request: LlmRequest) -> AllowedCall | AskForMore:
        """Have a call counted, and its likely cost reserved. AskForMore: the user is to be asked first.

        Raises:
            LlmCallsLimitExceededError, BudgetExceededError, NoPriceError: the turn has none left.
            UnknownModelError: a budget names a model that there is not.
            FencedError: the turn was taken over or has ended.
            Exception: what a plugin raises that hears of budgets.
        """
        if self._context.llm_budget.take_free_llm_call():
            return AllowedCall(self._model, request)
        asking = self._context.llm_budget.take_llm_call(request, request.model or self.name)
        reply = await told_of_limits(self._spec, self._context, asking)
        return reply if isinstance(reply, AskForMore) else self._call(request, reply)

    async def allowed_if_room(self, request: LlmRequest) -> AllowedCall | DoWithout:
        """Have a call counted that the run can do without. DoWithout: a budget has no room for it.

        Raises like `allowed`, without BudgetExceededError.
        """
        reply = await self._context.llm_budget.take_optional_llm_call(request, request.model or self.name)
        if reply.warnings:
            await tell_of_budgets(self._spec, self._context, reply.warnings)
        if isinstance(reply, DoWithout):
            self._context.telemetry.budget(BudgetTold(reply.whose.split()[0], "leave_out"))
            return reply
        return self._call(request, reply)

    def _call(self, request: LlmRequest, reply: MaySpend) -> AllowedCall:
        model = self._model
        if not (reply.model or reply.end):
            return AllowedCall(model, request)
        for action, done in (("model", reply.model), ("wrap_up", reply.end)):
            if done:
                self._context.telemetry.budget(BudgetTold("", action))
        if reply.model:
            request.model, model = reply.model, self._context.llm_budget.model_named(reply.model)
        request.system_instruction = instructions.join([request.system_instruction, reply.end])
        return AllowedCall(model, request)
