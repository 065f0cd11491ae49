"""The interface of planners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from actors.definitions.tools.context import CallbackContext, ReadonlyContext
from actors.messages.content import Content, Part
from actors.messages.llm.model import LlmRequest


class BasePlanner(ABC):
    """Has a say in each request and each response of an agent: `LlmAgent(planner=…)`."""

    @abstractmethod
    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        """Return what is added to the system instruction, or None."""

    @abstractmethod
    def process_planning_response(self, callback_context: CallbackContext, response_parts: list[Part]) -> Sequence[Part] | None:
        """Return the parts that take the place of a response's, or None. The parts may be changed in place.

        Called for each complete response, after the after_model callbacks.
        """

    def partial_text(self, before: str, text: str) -> Sequence[Part]:
        """The parts in which a piece of a streamed response is shown; by default the text as it is.

        Args:
            before: all texts of the response so far.
            text: the piece.
        """
        return [Part(text=text)]

    def process_request(self, request: LlmRequest, context: ReadonlyContext) -> None:
        """Change a request, before the agent's tools do: add the instruction, and show the model its earlier thoughts."""
        instruction = self.build_planning_instruction(context, request)
        if instruction:
            request.append_instructions([instruction])
        request.contents = [_without_thoughts(content) for content in request.contents]


def _without_thoughts(content: Content) -> Content:
    """The content with its thoughts as ordinary texts: services leave out what is marked as a thought."""
    if not any(part.thought for part in content.parts):
        return content
    parts = [msgspec.structs.replace(part, thought=None) if part.thought else part for part in content.parts]
    return Content(role=content.role, parts=parts)
