"""The tool by which a model finds others, where its agent has too many to show them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.errors.user_code import in_thread
from actors.layers.toolsets.rules import FIND_TOOLS, ToolMenu
from actors.messages.content import Content
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import FunctionDeclaration, LlmRequest


class FindToolsTool(Tool):
    """`find_tools`, for an agent whose toolsets have more tools than its model is shown.

    The others can be called all the same, so a call that waits for a person is run when the answer comes.

    Args:
        tools: the tools that are found, by name.
        toolsets: the names of the toolsets that they come from.
        most: how many of them a model sees at the same time.
    """

    name = FIND_TOOLS

    def __init__(self, tools: Mapping[str, Tool], toolsets: Sequence[str], most: int) -> None:
        declared = [declaration for tool in tools.values() if (declaration := tool.declaration()) is not None]
        self._menu = ToolMenu(declared, toolsets)
        self._tools = tools
        self._most = most
        self.hides = frozenset(tools)

    def declaration(self) -> FunctionDeclaration:
        """One required string, `query`."""
        return self._menu.declaration()

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Show the model the tools that it has found or called in the conversation."""
        # Read by the list's own method: each content that is looked at otherwise becomes a copy that may be changed.
        contents = (content for content in list.__iter__(request.contents) if isinstance(content, Content))
        request.append_tools([self._tools[name] for name in self._menu.shown(contents, self._most)])

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Return the names and descriptions of the tools that fit best. Raises ValueError without words to look for."""
        query = args.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError(f"{FIND_TOOLS} needs the argument query, words to look for")
        return await in_thread(self._menu.found, query)
