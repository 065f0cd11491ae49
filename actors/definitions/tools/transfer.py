"""The built-in tools that hand the conversation over, and that search for an agent to hand it to."""

from __future__ import annotations

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.errors.user_code import in_thread
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import FunctionDeclaration
from actors.rules.prompt.transfer_menu import TransferMenu, find_agents_declaration
from actors.rules.routing.transfer import FIND_TOOL, TRANSFER_TOOL


class TransferTool(Tool):
    """`transfer_to_agent`, with the targets of one agent."""

    name = TRANSFER_TOOL
    only_decides = True

    def __init__(self, menu: TransferMenu) -> None:
        self._menu = menu

    def declaration(self) -> FunctionDeclaration:
        """One required string, `agent_name`."""
        return self._menu.declaration()

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject | None:
        """Set the action `transfer_to_agent`; or return an error that names valid targets."""
        wanted = args.get("agent_name")
        refused = self._menu.refusal(wanted)
        if refused is not None:
            return {"error": refused}
        context.actions.transfer_to_agent = wanted
        return None


class FindAgentsTool(Tool):
    """`find_agents`, for an agent that has too many targets to list them for its model."""

    name = FIND_TOOL

    def __init__(self, menu: TransferMenu) -> None:
        self._menu = menu

    def declaration(self) -> FunctionDeclaration:
        """One required string, `query`."""
        return find_agents_declaration()

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Return the names and descriptions of the targets that fit best."""
        query = args.get("query")
        if not isinstance(query, str) or not query.strip():
            return {"error": f"{FIND_TOOL} needs the argument query, words to look for"}
        # Of ten thousand agents the first search takes 50 ms.
        found = await in_thread(self._menu.find, question=query)
        if not found:
            return {"agents": [], "hint": "No agent fits these words. Try others, or answer yourself."}
        return {"agents": [{"name": target.name, "description": target.description} for target in found]}


def transfer_tools(menu: TransferMenu) -> tuple[Tool, ...]:
    """The tools that an agent with these targets is given."""
    return (TransferTool(menu),) if menu.is_listed else (FindAgentsTool(menu), TransferTool(menu))
