"""The planners and the code execution of google-adk's agents as raygrove's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.planners.base_planner import BasePlanner as AdkBasePlanner
from google.adk.planners.built_in_planner import BuiltInPlanner as AdkBuiltInPlanner

from actors.definitions.planners.base import BasePlanner
from actors.definitions.planners.built_in import BuiltInPlanner
from actors.definitions.tools.context import CallbackContext, ReadonlyContext
from actors.messages.content import Part
from actors.messages.model import LlmRequest
from runtime.adk import contexts
from runtime.adk.callbacks import Source
from runtime.adk.contents import genai_part, own_part
from runtime.adk.requests import RequestView


def own_planner(source: Source, adk: AdkBasePlanner | None) -> BasePlanner | None:
    """The planner of an ADK agent as raygrove's; None without one."""
    if adk is None:
        return None
    if type(adk) is AdkBuiltInPlanner:
        return BuiltInPlanner(thinking_config=adk.thinking_config) if adk.thinking_config else None
    return AdkPlanner(source, adk)


class AdkPlanner(BasePlanner):
    """A planner of google-adk, such as PlanReActPlanner or one that users wrote.

    Args:
        source: the agent that has it.
        adk: the planner.
    """

    def __init__(self, source: Source, adk: AdkBasePlanner) -> None:
        self._source = source
        self._adk = adk

    def process_request(self, request: LlmRequest, context: ReadonlyContext) -> None:
        """Change a request as ADK does."""
        if not isinstance(self._adk, AdkBuiltInPlanner):
            super().process_request(request, context)
            return
        view = RequestView(request, self._source.tools)
        self._adk.apply_thinking_config(view.adk)
        view.carry_back()

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        """Ask ADK's planner, which may change the request as well."""
        view = RequestView(llm_request, self._source.tools)
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
