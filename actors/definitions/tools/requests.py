"""What only changes requests: the base of such tools, and the execution of code by the service of a model."""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import LlmRequest


class RequestTool(Tool):
    """A tool that has no declaration. Write `process_request`, which is called before each model call of the agent."""

    def declaration(self) -> None:
        """None: the model cannot call it."""

    @abstractmethod
    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Change a request of the agent: see Tool."""

    async def run(self, args: JsonObject, context: ToolContext) -> NoReturn:
        """Raises LookupError: a model that calls it has made that up."""
        raise LookupError(f"there is no function {self.name!r} to call")


class BuiltInCodeExecutor:
    """Lets Gemini write Python and run it at its service while it answers: `LlmAgent(code_executor=BuiltInCodeExecutor())`.

    Code and output are parts of the answer: `executable_code` and `code_execution_result`.
    """

    def process_request(self, request: LlmRequest) -> None:
        """Put the service's code execution into the configuration."""
        add_to(request, {"code_execution": {}})


def add_to(request: LlmRequest, tool: JsonObject) -> None:
    """Add a tool of the service to a request, if the request has it not yet."""
    tools = request.config.get("tools") or []
    if tool not in tools:
        # A new list: that of the agent's definition is shared.
        request.config["tools"] = [*tools, tool]
