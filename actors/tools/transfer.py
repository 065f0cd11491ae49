"""The built-in tool that hands the conversation over (seed 002)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.messages.model import FunctionDeclaration
from actors.rules.transfer import TRANSFER_TOOL, Target, declaration, refusal
from actors.tools.base import Tool
from actors.tools.context import ToolContext


class TransferTool(Tool):
    """`transfer_to_agent` for one agent, with its targets."""

    name = TRANSFER_TOOL
    only_decides = True

    def __init__(self, agent: str, targets: Sequence[Target]) -> None:
        self._agent = agent
        self._targets = targets

    def declaration(self) -> FunctionDeclaration:
        """One required string out of the targets' names."""
        return declaration(self._targets)

    async def run(self, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
        """Set the action; or tell the model why it cannot be, and what it can be."""
        wanted = args.get("agent_name")
        refused = refusal(self._agent, wanted, self._targets)
        if refused is not None:
            return {"error": refused}
        context.actions.transfer_to_agent = wanted
        return None
