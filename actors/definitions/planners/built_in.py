"""The planner that leaves thinking to the model."""

from __future__ import annotations

from actors.definitions.planners.base import BasePlanner
from actors.definitions.tools.context import CallbackContext, ReadonlyContext
from actors.errors import DefinitionError
from actors.errors.calls import explains_wrong_calls
from actors.messages.content import Part
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm.fields import as_json
from actors.messages.llm.model import LlmRequest


class BuiltInPlanner(BasePlanner):
    """Turns on the thinking of models that can think. Thoughts of the model are parts with `thought`.

    Args:
        thinking_config: google-genai's ThinkingConfig, or a dictionary of its fields, such as `{"include_thoughts": True}`. It
            takes the place of one in the agent's `generate_content_config`.

    Raises:
        DefinitionError: it is something else.
    """

    @explains_wrong_calls
    def __init__(self, *, thinking_config: JsonValue) -> None:
        fields = as_json(thinking_config)
        if not isinstance(fields, dict):
            kind = type(thinking_config).__name__
            raise DefinitionError(f"thinking_config must be a ThinkingConfig or a dictionary of its fields, not {kind}")
        self.thinking_config: JsonObject = fields

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> None:
        """None: the model needs no instruction."""

    def process_planning_response(self, callback_context: CallbackContext, response_parts: list[Part]) -> None:
        """None: the model marks its thoughts itself."""

    def process_request(self, request: LlmRequest, context: ReadonlyContext) -> None:
        """Put the configuration into the request."""
        request.config["thinking_config"] = dict(self.thinking_config)
