"""The tool by which a model finds others, when an agent has too many to show them all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.messages.content import Content
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.model import FunctionDeclaration, LlmRequest
from actors.rules.prompt.agent_search import MAX_FOUND, AgentSearch

FIND_TOOLS = "find_tools"

MAX_SHOWN = 64
"""Tools of searchable toolsets up to which a model is shown all; and how many of those found it is shown, the newest."""


class HiddenTool(Tool):
    """A tool that a model may call, and is not shown before it has found it."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.name = tool.name
        self.description = tool.description
        self.is_long_running = tool.is_long_running
        self.require_confirmation = tool.require_confirmation
        self.only_decides = tool.only_decides

    def declaration(self) -> None:
        """None: it is not shown."""

    async def needs_confirmation(self, args: JsonObject, context: ToolContext) -> bool:
        """What the tool says."""
        return await self.tool.needs_confirmation(args, context)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonValue:
        """Run the tool."""
        return await self.tool.run(args, context)


class FindTools(Tool):
    """Finds tools by words; those that it has found in the conversation are shown from then on.

    Args:
        tools: what can be found.
    """

    name = FIND_TOOLS

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.description = (
            f"Find tools: you have {len(tools)} more than you are shown. Gives the names and descriptions of the {MAX_FOUND} "
            "that fit best, which you can call from then on."
        )
        self._tools = {tool.name: tool for tool in tools}

    @cached_property
    def _search(self) -> AgentSearch:
        return AgentSearch(list(self._tools), [tool.description for tool in self._tools.values()])

    def declaration(self) -> FunctionDeclaration:
        """One required text, `query`."""
        query = {"type": "string", "description": "Words for what a tool has to do, or a part of its name."}
        parameters = {"type": "object", "properties": {"query": query}, "required": ["query"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Show the model the tools that it has found in the conversation."""
        found: dict[str, None] = {}
        # Read as they are: looked at by the list's own methods, each would become a copy that may be changed.
        contents = (content for content in list.__iter__(request.contents) if isinstance(content, Content))
        for response in chain.from_iterable(content.function_responses() for content in contents):
            if response.name == self.name:
                found.update((name, None) for name in _names(response.response))
        newest = [self._tools[name] for name in found if name in self._tools][-MAX_SHOWN:]
        request.append_tools(newest)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Find tools. Raises ValueError without a query."""
        query = args.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError(f"{self.name} needs the argument query, a text")
        tools = list(self._tools.values())
        found = [tools[index] for index in self._search.find(query)]
        return {"tools": [{"name": tool.name, "description": tool.description} for tool in found]}


def with_search(tools: Sequence[Tool]) -> Sequence[Tool]:
    """The tools; when they are too many, a tool to find them, and themselves hidden."""
    if len(tools) <= MAX_SHOWN:
        return tools
    return [FindTools(tools), *map(HiddenTool, tools)]


def _names(response: JsonObject) -> list[str]:
    tools = response.get("tools")
    listed = tools if isinstance(tools, list) else []
    return [tool["name"] for tool in listed if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
