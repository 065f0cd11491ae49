"""Which tools of toolsets a model sees when there are too many to show them all (semantics.md section 5).

The model gets a tool that finds others by words. It sees those that it has found, or called, in the conversation that it gets:
so nothing has to be remembered, and a run that goes on after a loss sees the same tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from actors.messages.content import Content
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.llm.model import FunctionDeclaration
from actors.rules.prompt.agent_search import MAX_FOUND, AgentSearch

FIND_TOOLS = "find_tools"

MAX_SHOWN_DESCRIPTION = 300
"""Characters of a description in the result of a search; the model sees all of it when the tool is shown to it."""


class ToolMenu:
    """Tools that a model finds by words.

    Args:
        declarations: the tools as models see them.
        toolsets: the names of the toolsets that they come from.
    """

    def __init__(self, declarations: Sequence[FunctionDeclaration], toolsets: Sequence[str]) -> None:
        self._declarations = declarations
        self._toolsets = toolsets
        self.names = {declaration.name: declaration for declaration in declarations}

    @cached_property
    def _search(self) -> AgentSearch:
        return AgentSearch(list(self.names), [declaration.description for declaration in self._declarations])

    def declaration(self) -> FunctionDeclaration:
        """`find_tools` as the model sees it: one required string, `query`."""
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

    def found(self, query: str) -> JsonObject:
        """The result of a search: names and descriptions of the tools that fit best, the best first."""
        found = [self._declarations[index] for index in self._search.find(query)]
        if not found:
            return {"tools": [], "hint": "No function fits these words. Try others."}
        return {"tools": [{"name": each.name, "description": each.description[:MAX_SHOWN_DESCRIPTION]} for each in found]}

    def shown(self, contents: Iterable[Content], most: int) -> list[str]:
        """The names of the tools that a model sees with these contents: the newest that it has found or called.

        They stand in the order in which they were first found, the best of a search first: so what a service has cached of the
        requests before still fits.

        Args:
            contents: the conversation, oldest first.
            most: how many it sees at most.
        """
        first: dict[str, None] = {}
        newest: dict[str, None] = {}
        for content in contents:
            for name in _mentioned(content):
                if name in self.names:
                    first.setdefault(name)
                    # What is mentioned again is new again.
                    newest.pop(name, None)
                    newest[name] = None
        kept = set(list(newest)[-most:])
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
