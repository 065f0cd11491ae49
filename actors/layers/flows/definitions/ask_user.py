"""The tool by which agents of an interactive task ask the user (semantics.md section 7)."""

from __future__ import annotations

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.layers.flows.rules.tool_names import ASK_USER
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import FunctionDeclaration


class AskUserTool(Tool):
    """Asks the user a question; the answer is the response to the call."""

    name = ASK_USER
    description = "Ask the user a question about your tasks, and wait for the answer."
    is_long_running = True

    def declaration(self) -> FunctionDeclaration:
        """One required text, `question`."""
        question = {"type": "string", "description": "What the user is asked."}
        parameters = {"type": "object", "properties": {"question": question}, "required": ["question"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> None:
        """Leave the answer to the user. Raises ValueError without a question."""
        question = args.get("question")
        if not isinstance(question, str) or not question.strip():
            raise ValueError(f"{self.name} needs the argument question, a text")
