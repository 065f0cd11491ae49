"""The callbacks, instructions and planners of an ADK agent as raygrove's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from google.adk.planners.base_planner import BasePlanner as AdkBasePlanner
from google.adk.planners.built_in_planner import BuiltInPlanner as AdkBuiltInPlanner

from actors.definitions.agents.llm import BasePlanner
from actors.definitions.tools.context import CallbackContext, ReadonlyContext, ToolContext
from actors.errors.user_code import in_thread
from actors.layers.planning import BuiltInPlanner
from actors.messages.content import Content, Part
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.integrations.adk import contexts
from runtime.integrations.adk.contents import adk_response, genai_part, own_content, own_part, own_response
from runtime.integrations.adk.contexts import Source
from runtime.integrations.adk.requests import RequestView, adk_tool
from runtime.integrations.adk.tools import AdkTool


async def call(function: Callable[..., Any], ours: ReadonlyContext, /, *unnamed: Any, **arguments: Any) -> Any:
    """Call a callback as ADK does: a sync one in a thread, so that other sessions do not wait for it."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        await contexts.read_events_for(function, ours)
        return await function(*unnamed, **arguments)
    result = await in_thread(function, *unnamed, **arguments)
    return await result if inspect.isawaitable(result) else result


def request_view(request: LlmRequest, source: Source) -> RequestView:
    """A request as ADK's callbacks have it. The tools that they append to it can be called."""
    return RequestView(request, lambda tool: AdkTool(source, tool), schema=source.output_schema)


class _Converted:
    """Base of what stands for callbacks of one point.

    Args:
        source: the agent.
        functions: ADK's callbacks, in order.
    """

    def __init__(self, source: Source, functions: Sequence[Callable[..., Any]] = ()) -> None:
        self._source = source
        self._functions = list(functions)

    async def _first(self, ours: CallbackContext, **arguments: Any) -> Any:
        for function in self._functions:
            result = await call(function, ours, **arguments)
            self._source.check_unchanged()
            if result is not None:
                return result
        return None

    def _context(self, ours: CallbackContext) -> Any:
        return contexts.callback_context(self._source.agent, ours, self._source.app_name)


class AgentCallback(_Converted):
    """before_agent_callback or after_agent_callback."""

    async def __call__(self, ours: CallbackContext) -> Content | None:
        """Call them; the content is what one returned."""
        context = self._context(ours)
        result = await self._first(ours, callback_context=context)
        contexts.carry_back(context, ours)
        return own_content(result) if result is not None else None


class BeforeModel(_Converted):
    """before_model_callback."""

    async def __call__(self, ours: CallbackContext, request: LlmRequest) -> LlmResponse | None:
        """Call them, on the request as ADK has it; the response is what one returned in place of the call."""
        context = self._context(ours)
        view = request_view(request, self._source)
        result = await self._first(ours, callback_context=context, llm_request=view.adk)
        view.carry_back()
        contexts.carry_back(context, ours)
        return own_response(result) if result is not None else None


class AfterModel(_Converted):
    """after_model_callback."""

    async def __call__(self, ours: CallbackContext, response: LlmResponse) -> LlmResponse | None:
        """Call them; changes in place count as well."""
        context = self._context(ours)
        # Made twice in place of a deep copy, which costs more.
        theirs, before = adk_response(response), adk_response(response)
        result = await self._first(ours, callback_context=context, llm_response=theirs)
        result = theirs if result is None else result
        contexts.carry_back(context, ours)
        if result == before:
            return None
        given = own_response(result)
        if result is theirs:
            # A finish reason that google-genai does not know would be lost on the way through its types.
            given = msgspec.structs.replace(given, finish_reason=given.finish_reason or response.finish_reason)
        return given


class OnModelError(_Converted):
    """on_model_error_callback."""

    async def __call__(self, ours: CallbackContext, request: LlmRequest, error: Exception) -> LlmResponse | None:
        """Call them; the response is what one returned in place of the error."""
        context = self._context(ours)
        asked = request_view(request, self._source).adk
        result = await self._first(ours, callback_context=context, llm_request=asked, error=error)
        contexts.carry_back(context, ours)
        return own_response(result) if result is not None else None


class ToolCallback(_Converted):
    """before_tool_callback, after_tool_callback or on_tool_error_callback.

    Args:
        last: the keyword of what follows the context: the result or the error; "" for nothing.
    """

    def __init__(self, source: Source, functions: Sequence[Callable[..., Any]] = (), *, last: str = "") -> None:
        super().__init__(source, functions)
        self._last = last

    async def __call__(self, tool: Any, args: dict[str, Any], ours: ToolContext, *rest: Any) -> Any:
        """Call them; changes of `args`, and of a result, in place count."""
        context = self._context(ours)
        theirs = adk_tool(tool)
        more = {self._last: rest[0]} if self._last else {}
        result = await self._first(ours, tool=theirs, args=args, tool_context=context, **more)
        contexts.carry_back(context, ours)
        return result


class Provider:
    """An instruction that is a function of ADK's ReadonlyContext."""

    def __init__(self, source: Source, function: Callable[..., Any]) -> None:
        self._source = source
        self._function = function

    async def __call__(self, ours: ReadonlyContext) -> str:
        """The instruction's text."""
        context = contexts.readonly_context(self._source.agent, ours, self._source.app_name)
        return str(await call(self._function, ours, context))


def own_planner(source: Source, adk: AdkBasePlanner | None) -> BasePlanner | None:
    """The planner of an ADK agent as raygrove's; None without one."""
    if adk is None:
        return None
    if type(adk) is AdkBuiltInPlanner:
        return BuiltInPlanner(thinking_config=adk.thinking_config) if adk.thinking_config else None
    return AdkPlanner(source, adk)


class AdkPlanner(BasePlanner):
    """A planner of google-adk, such as PlanReActPlanner or one that users wrote."""

    def __init__(self, source: Source, adk: AdkBasePlanner) -> None:
        self._source = source
        self._adk = adk

    def process_request(self, request: LlmRequest, context: ReadonlyContext) -> None:
        """Change a request as ADK does."""
        if not isinstance(self._adk, AdkBuiltInPlanner):
            super().process_request(request, context)
            return
        view = RequestView(request, schema=self._source.output_schema)
        self._adk.apply_thinking_config(view.adk)
        view.carry_back()

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        """Ask ADK's planner, which may change the request as well."""
        view = RequestView(llm_request, schema=self._source.output_schema)
        theirs = contexts.readonly_context(self._source.agent, readonly_context, self._source.app_name)
        instruction: str | None = self._adk.build_planning_instruction(theirs, view.adk)
        view.carry_back()
        return instruction

    def process_planning_response(self, callback_context: CallbackContext, response_parts: list[Part]) -> Sequence[Part] | None:
        """Have ADK's planner work on the parts; None when it changes nothing."""
        parts: list[Any] = [genai_part(part) for part in response_parts]
        before = [part.model_copy(deep=True) for part in parts]
        theirs = contexts.callback_context(self._source.agent, callback_context, self._source.app_name)
        planned = self._adk.process_planning_response(theirs, parts) or parts
        contexts.carry_back(theirs, callback_context)
        return None if planned == before else [own_part(part) for part in planned]
