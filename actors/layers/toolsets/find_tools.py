"""The tool by which a model finds others, where its agent has too many to show them all (semantics.md section 5).

The model sees those that it has found, or called, in the conversation that it gets: so nothing has to be remembered, and a run
that goes on after a loss sees the same tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.errors.user_code import in_thread
from actors.messages.content import Content
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.llm.model import FunctionDeclaration, LlmRequest
from actors.rules.prompt.agent_search import MAX_FOUND, AgentSearch

FIND_TOOLS = "find_tools"

MAX_SHOWN_DESCRIPTION = 300
"""Characters of a description in the result of a search; the model sees all of it when the tool is shown to it."""


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
        self._declarations = [declaration for tool in tools.values() if (declaration := tool.declaration()) is not None]
        self._toolsets = toolsets
        self._tools = tools
        self._most = most
        self.hides = frozenset(tools)

    @cached_property
    def _search(self) -> AgentSearch:
        return AgentSearch([each.name for each in self._declarations], [each.description for each in self._declarations])

    def declaration(self) -> FunctionDeclaration:
        """One required string, `query`."""
        return FunctionDeclaration(
            name=FIND_TOOLS,
            description=(
                f"Find functions: there are {len(self._declarations)} more than you see here, of {', '.join(self._toolsets)}. "
                f"You get names and descriptions of the {MAX_FOUND} that fit best, and can call them from then on."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words for what the function has to do, or a part of its name."}
                },
                "required": ["query"],
            },
        )

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Show the model the tools that it has found or called in the conversation."""
        # Read by the list's own method: each content that is looked at otherwise becomes a copy that may be changed.
        contents = (content for content in list.__iter__(request.contents) if isinstance(content, Content))
        request.append_tools([self._tools[name] for name in self._shown(contents)])

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Return the names and descriptions of the tools that fit best. Raises ValueError without words to look for."""
        query = args.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError(f"{FIND_TOOLS} needs the argument query, words to look for")
        return await in_thread(self._found, query)

    def _found(self, query: str) -> JsonObject:
        """The result of a search: names and descriptions of the tools that fit best, the best first."""
        found = [self._declarations[index] for index in self._search.find(query)]
        if not found:
            return {"tools": [], "hint": "No function fits these words. Try others."}
        return {"tools": [{"name": each.name, "description": each.description[:MAX_SHOWN_DESCRIPTION]} for each in found]}

    def _shown(self, contents: Iterable[Content]) -> list[str]:
        """The names of the tools that a model sees with these contents: the newest that it has found or called.

        They stand in the order in which they were first found, the best of a search first: so what a service has cached of the
        requests before still fits.

        Args:
            contents: the conversation, oldest first.
        """
        first: dict[str, None] = {}
        newest: dict[str, None] = {}
        for content in contents:
            for name in _mentioned(content):
                if name in self._tools:
                    first.setdefault(name)
                    # What is mentioned again is new again.
                    newest.pop(name, None)
                    newest[name] = None
        kept = set(list(newest)[-self._most :])
        return [name for name in first if name in kept]


def _mentioned(content: Content) -> Iterable[str]:
    """The names of the functions that a content calls, or that a search has found, the best first."""
    for call in content.function_calls():
        yield call.name
    for response in content.function_responses():
        if response.name == FIND_TOOLS:
            yield from _names(response.response)


def _names(response: JsonMapping) -> list[str]:
    found = response.get("tools")
    return [str(each.get("name")) for each in found if isinstance(each, dict)] if isinstance(found, list) else []
