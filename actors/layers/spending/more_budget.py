"""The call by which an agent asks for more of a budget, as a tool that no model sees."""

from __future__ import annotations

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.messages.json_types import JsonObject
from actors.rules.checks.budget_question import REQUEST_BUDGET


class RequestBudgetTool(Tool):
    """Waits for the user's answer as a tool does that needs consent. The Session actor raises the budget, by the answer."""

    name = REQUEST_BUDGET
    description = "Ask for more of a budget."
    require_confirmation = True

    def declaration(self) -> None:
        """No model calls it."""

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Say that the user has agreed."""
        return self.agreed()

    def agreed(self) -> JsonObject:
        """The response to the call, for the log."""
        return {"result": "the budget was raised"}
