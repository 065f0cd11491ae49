"""The planner of an agent has a say in its requests and responses: see BasePlanner."""

from __future__ import annotations

import msgspec

from actors.behaviours.interceptor import CallModel, PrepareRequest, RunInterceptor
from actors.behaviours.lifecycle import as_response
from actors.definitions.agents.planner import BasePlanner
from actors.definitions.tools.context import CallbackContext
from actors.definitions.tree.spec import AgentSpec
from actors.messages.content import Content, Part
from actors.messages.llm.drafts import draft_of_content
from actors.messages.llm.model import LlmResponse
from actors.messages.topology import LLM


class Planning(RunInterceptor):
    """Has the planner change requests before tools and callbacks do, and responses after callbacks."""

    changes_requests = True

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For an agent with a planner."""
        return spec.kind == LLM and spec.llm_agent.planner is not None

    async def prepare_request(self, prepare: PrepareRequest) -> LlmResponse | None:
        """Change the request, and the response that a callback has in place of the model's."""
        self._planner.process_request(prepare.request, prepare.context)
        replaced = await self.next.prepare_request(prepare)
        return self._planned(replaced, prepare.context) if replaced is not None else None

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Change the response, and its pieces."""
        if (show := call.show) is not None:
            pieces = _Pieces(self._planner)

            async def show_planned(content: Content | None) -> None:
                await show(pieces.shown(content) if content is not None else None)

            call.show = show_planned
        return self._planned(await self.next.call_model(call), call.context)

    @property
    def _planner(self) -> BasePlanner:
        planner = self.run.spec.llm_agent.planner
        assert planner is not None
        return planner

    def _planned(self, response: LlmResponse, context: CallbackContext) -> LlmResponse:
        if response.content is None:
            return response
        draft = draft_of_content(response.content)
        parts = self._planner.process_planning_response(context, list(draft.parts))
        planned = msgspec.structs.replace(response, content=Content(parts=parts or draft.parts))
        return as_response(planned, self.run.spec.model_name)


class _Pieces:
    """The pieces of one response."""

    def __init__(self, planner: BasePlanner) -> None:
        self._planner = planner
        self._text = ""

    def shown(self, content: Content) -> Content | None:
        """The next piece; None when nothing of it is to be shown yet."""
        parts: list[Part] = []
        for part in content.parts:
            if part.text and not part.thought and part.carries_only_text():
                parts += self._planner.partial_text(self._text, part.text)
                self._text += part.text
            else:
                parts.append(part)
        return Content(role=content.role, parts=parts) if parts else None
