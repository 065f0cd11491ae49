"""Gemini's own tools: the service runs them while it answers, and no call comes back."""

from __future__ import annotations

from actors.definitions.tools.context import CallbackContext
from actors.definitions.tools.requests import RequestTool, add_to
from actors.errors.hints import explains_wrong_calls
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import LlmRequest


class BuiltInTool(RequestTool):
    """A tool of the model's service. It is put into `config.tools` of each request; a model that does not know it ignores it.

    Args:
        name: the field of google-genai's Tool, for instance "google_search".
        options: the fields of that tool's own configuration; default none.
    """

    @explains_wrong_calls
    def __init__(self, name: str, options: JsonObject | None = None) -> None:
        self.name = name
        self.options = dict(options or {})

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Put the tool into the configuration."""
        add_to(request, {self.name: dict(self.options)})


google_search = BuiltInTool("google_search")
"""Lets Gemini search the web. What it found is on the event with the answer: `grounding_metadata`."""

url_context = BuiltInTool("url_context")
"""Lets Gemini read the pages whose addresses stand in the conversation."""

code_execution = BuiltInTool("code_execution")
"""Lets Gemini write Python and run it at its service, as `code_executor=BuiltInCodeExecutor()` does."""
