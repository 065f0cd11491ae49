"""Budgets around the calls of a run: each model call, and the calls of tools, ask the Session actor for room (docs/costs.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Self

import msgspec

from actors.behaviours.interceptor import (
    CallLeftOutError,
    CallModel,
    CallTool,
    EventInsteadError,
    RunInterceptor,
    RunParts,
    RunTools,
    TakeStep,
)
from actors.behaviours.lifecycle import callback_context
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import Actions, ToolContext
from actors.errors import BudgetExceededError
from actors.interfaces.telemetry import BudgetTold
from actors.layers.spending.messages import AskForMore, DoWithout, MaySpend, ReserveSpending
from actors.layers.spending.rules.budgets import tokens_of
from actors.messages.costs import BudgetWarning
from actors.messages.event import new_event_id
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmResponse
from actors.messages.protocol.runs import AnyOutcome, Paused
from actors.rules.checks.questions import REQUEST_BUDGET, question
from actors.rules.prompt import instructions


class RequestBudgetTool(Tool):
    """Asks for more of a budget: no model sees it.

    It waits for the user's answer as a tool does that needs consent. The Session actor raises the budget, by the answer.
    """

    name = REQUEST_BUDGET
    description = "Ask for more of a budget."
    require_confirmation = True

    def declaration(self) -> None:
        """No model calls it."""

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Say that the user has agreed."""
        return self.agreed()

    def agreed(self) -> JsonObject:
        """The response to the call, for the log."""
        return {"result": "the budget was raised"}


class _Budgets(RunInterceptor):
    """What interceptors of budgets share."""

    async def reserve(self, **what: object) -> MaySpend | AskForMore:
        """Ask whether calls may be made, and report a budget without room, warnings, and a question to the user.

        Raises:
            BudgetExceededError, NoPriceError: they may not.
            Exception: what a hook raises.
        """
        telemetry = self.run.context.telemetry
        try:
            reply = await self._asked(**what)
        except BudgetExceededError as error:
            _, field, limit, used, _, whose = error.args
            telemetry.budget(BudgetTold(str(whose).split()[0], "stop", field, limit, used))
            raise
        await self._warn(reply.warnings)
        assert not isinstance(reply, DoWithout)
        if isinstance(reply, AskForMore):
            facts = reply.facts
            numbers = [number if isinstance(number := facts.get(name), int | float) else 0.0 for name in ("limit", "used")]
            telemetry.budget(BudgetTold(reply.scope.partition(":")[0], "ask", str(facts.get("field", "")), *numbers))
        return reply

    async def reserve_if_room(self, **what: object) -> MaySpend | DoWithout:
        """Ask whether an optional call may be made, and report warnings. Raises NoPriceError, and what a hook raises."""
        reply = await self._asked(is_optional=True, **what)
        await self._warn(reply.warnings)
        assert not isinstance(reply, AskForMore)
        return reply

    async def _asked(self, **what: object) -> MaySpend | AskForMore | DoWithout:
        message = self.run.message
        asked = ReserveSpending(turn=message.turn, agent=message.agent, branch=message.branch)
        return await self.run.session.ask(msgspec.structs.replace(asked, **what))

    async def _warn(self, warnings: Sequence[BudgetWarning]) -> None:
        """Report budgets of which most is used to telemetry, and to the hooks of plugins. Raises what a hook raises."""
        context = self.run.context
        for warning in warnings:
            scope = warning.whose.split()[0]
            context.telemetry.budget(BudgetTold(scope, "warn", warning.field, warning.limit, warning.used))
            for hook in self.run.spec.hooks("on_budget_callback"):
                await hook(callback_context(context, Actions()), warning)


class BudgetQuestions(_Budgets):
    """Has the user asked for more of a budget: the question is a call of the agent, and held calls are run after the answer."""

    _has_looked = False

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For a turn with a budget that asks."""
        return cls(run) if run.message.config.asks_for_more else None

    def tools(self) -> Sequence[Tool]:
        """The call that asks, as a tool."""
        return (RequestBudgetTool(), *self.next.tools())

    async def take_step(self, step: TakeStep) -> AnyOutcome | None:
        """Run the calls before which the user was asked, and then take the step."""
        if not self._has_looked:
            self._has_looked = True
            context = self.run.context
            held = (await context.view()).held_calls(context.invocation_id)
            if held and (outcome := await step.run_tools(held)) is not None:
                return outcome
        return await self.next.take_step(step)

    async def call_tool(self, call: CallTool) -> object:
        """Say that the user has agreed. It is no tool of the user's program: no other interceptor sees it."""
        if isinstance(call.tool, RequestBudgetTool):
            return call.tool.agreed()
        return await self.next.call_tool(call)


class ToolBudgets(_Budgets):
    """Asks for room before the tools of a response are run."""

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For a turn with a budget of calls of tools."""
        return cls(run) if any(budget.tool_calls is not None for budget in run.message.config.budgets) else None

    async def run_tools(self, tools: RunTools) -> AnyOutcome | None:
        """Run the tools. Without room ask the user, or answer each call with the order to end. Raises BudgetExceededError."""
        if [call.name for call in tools.calls] == [REQUEST_BUDGET]:
            return await self.next.run_tools(tools)
        context, before = self.run.context, tools.together_with
        # Others are in the log, and counted.
        reply = await self.reserve(tool_calls=len(tools.calls) if before is not None else 0)
        if isinstance(reply, AskForMore):
            asked = question(reply.scope, new_event_id(), reply.facts)
            await context.emit_all([asked] if before is None else [before, asked])
            return Paused(call_ids=tuple(asked.long_running_tool_ids))
        if reply.end:
            context.telemetry.budget(BudgetTold("", "wrap_up"))
            tools.decided = {call.id or "": {"error": reply.end} for call in tools.calls}
        return await self.next.run_tools(tools)


class ModelBudgets(_Budgets):
    """Reserves the likely cost of each model call."""

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For a turn with a budget."""
        return cls(run) if run.message.config.budgets else None

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Make the call, perhaps of another model, if there is room.

        Raises:
            EventInsteadError: the user is to be asked first.
            CallLeftOutError: there is no room for an optional call.
            BudgetExceededError, NoPriceError: the turn has none left.
            UnknownModelError: a budget names a model that there is not.
            FencedError: the turn was taken over or has ended.
        """
        telemetry = self.run.context.telemetry
        asks: Callable[..., Awaitable[MaySpend | AskForMore | DoWithout]] = (
            self.reserve_if_room if call.is_optional else self.reserve
        )
        reply = await asks(model=call.request.model or call.name, input_tokens=tokens_of(call.request))
        if isinstance(reply, AskForMore):
            raise EventInsteadError(question(reply.scope, call.event_id, reply.facts))
        if isinstance(reply, DoWithout):
            telemetry.budget(BudgetTold(reply.whose.split()[0], "leave_out"))
            raise CallLeftOutError(f"the budget of {reply.whose}")
        for action, done in (("model", reply.model), ("wrap_up", reply.end)):
            if done:
                telemetry.budget(BudgetTold("", action))
        if reply.model:
            call.request.model, call.model = reply.model, self.run.resolve(self.run.message.agent, reply.model)
        if reply.end:
            call.request.system_instruction = instructions.join([call.request.system_instruction, reply.end])
        return await self.next.call_model(call)
