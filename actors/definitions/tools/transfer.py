"""The built-in tools that hand the conversation over, and that find out to whom (seed 002)."""

from __future__ import annotations

from typing import Any

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.errors.user_code import in_thread
from actors.messages.model import FunctionDeclaration
from actors.rules.prompt.transfer_menu import TransferMenu, finding_declaration
from actors.rules.routing.transfer import FIND_TOOL, TRANSFER_TOOL


class TransferTool(Tool):
    """`transfer_to_agent` for one agent, with its targets."""

    name = TRANSFER_TOOL
    only_decides = True

    def __init__(self, reach: TransferMenu) -> None:
        self._reach = reach

    def declaration(self) -> FunctionDeclaration:
        """One required string."""
        return self._reach.declaration()

    async def run(self, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
        """Set the action; or tell the model why it cannot be, and what it can be."""
        wanted = args.get("agent_name")
        refused = self._reach.refusal(wanted)
        if refused is not None:
            return {"error": refused}
        context.actions.transfer_to_agent = wanted
        return None


class FindAgentsTool(Tool):
    """`find_agents` for an agent that has more targets than its model can be told."""

    name = FIND_TOOL

    def __init__(self, reach: TransferMenu) -> None:
        self._reach = reach

    def declaration(self) -> FunctionDeclaration:
        """One required string."""
        return finding_declaration()

    async def run(self, args: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Tell the targets that fit best."""
        query = args.get("query")
        if not isinstance(query, str) or not query.strip():
            return {"error": f"{FIND_TOOL} needs the argument query, words to look for"}
        # Of ten thousand agents the first search takes 50 ms.
        found = await in_thread(self._reach.find, question=query)
        if not found:
            return {"agents": [], "hint": "No agent fits these words. Try others, or answer yourself."}
        return {"agents": [{"name": target.name, "description": target.description} for target in found]}


def transfer_tools(reach: TransferMenu) -> tuple[Tool, ...]:
    """What an agent with these targets is given."""
    return (TransferTool(reach),) if reach.is_listed else (FindAgentsTool(reach), TransferTool(reach))
