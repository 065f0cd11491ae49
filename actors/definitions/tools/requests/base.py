"""The base of tools that only change requests."""

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
