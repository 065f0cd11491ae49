"""The tool by which an agent hands on what has come of its task (semantics.md section 8)."""

from __future__ import annotations

from actors.definitions.agents.output_type import OutputType
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.messages.event import Event
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm.model import FunctionDeclaration

FINISH_TASK = "finish_task"
"""The name of the tool; google-adk's."""

RULES = (
    "You work on one task, and may talk with the user about it for as long as it takes. When you have what it asks for, call "
    f"`{FINISH_TASK}` with it, together with no other function. What you only say does not end the task."
)
"""What stands about it in the system instruction."""

_RESULT = "result"


class FinishTaskTool(Tool):
    """`finish_task`, whose arguments are the agent's output: the fields of its output_schema; else one text, `result`.

    Args:
        type: of the output; None for a text. What is no object stands under `result`.
    """

    name = FINISH_TASK
    description = "Finish your task: hand on what has come of it."

    def __init__(self, type: OutputType | None) -> None:
        self._type = type
        self._is_wrapped = type is not None and type.json_schema.get("type") != "object"

    def declaration(self) -> FunctionDeclaration:
        """The fields of the output."""
        if self._type is not None and not self._is_wrapped:
            return FunctionDeclaration(name=self.name, description=self.description, parameters=self._type.json_schema)
        result = {"type": "string"} if self._type is None else dict(self._type.json_schema)
        # References lead to definitions at the root of a schema.
        definitions = {"$defs": result.pop("$defs")} if "$defs" in result else {}
        parameters = {"type": "object", "properties": {_RESULT: result}, "required": [_RESULT], **definitions}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Say that the task is over; or, with arguments that do not fit, why it is not."""
        try:
            self.output(args)
        except ValueError as error:
            reason = f"Invoking `{self.name}()` failed due to validation errors:\n{error}"
            return {"error": f"{reason}\nThe task is not over: call it again with all arguments, each of its type."}
        return {"result": "Task completed."}

    def output(self, args: JsonObject) -> JsonValue:
        """The output in the arguments of a call. Raises ValueError when they do not fit."""
        if self._type is not None and not self._is_wrapped:
            return self._type.data_of(args)
        if _RESULT not in args:
            raise ValueError(f"1 argument is missing: `{_RESULT}`")
        if self._type is not None:
            return self._type.data_of(args[_RESULT])
        if not isinstance(args[_RESULT], str):
            raise ValueError(f"1 argument is wrong: `{_RESULT}` is a text")
        return {_RESULT: args[_RESULT]}

    def finished(self, event: Event, calls: JsonObject) -> JsonValue:
        """The output of the call that an event answers with success; None when it answers none.

        Args:
            calls: the arguments of the calls, by their ids.
        """
        for response in event.function_responses():
            if response.name == self.name and "error" not in response.response:
                return self.output(calls[response.id or ""])
        return None
