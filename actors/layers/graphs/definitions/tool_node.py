"""A tool as a node of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.definitions.tools.base import Tool
from actors.definitions.tools.function import FunctionTool
from actors.errors import DefinitionError, WorkflowDataError
from actors.errors.hints import explains_wrong_calls
from actors.layers.agent_tool import AgentTool
from actors.layers.graphs.definitions.context import NodeContext
from actors.layers.graphs.definitions.nodes import FunctionNode
from actors.messages.content import Content
from actors.messages.json_types import JsonMapping, JsonObject
from actors.rules.checks.answer_form import read_json


class ToolNode(FunctionNode):
    """A node that runs a tool: a tool that stands in the edges of a graph becomes one. What the tool returns is its output.

    A dictionary, or a text that is one as JSON, has the arguments. Any other input is the argument of a tool that needs just one.
    What is missing then comes from the state, by name.

    Args:
        tool: the tool. With `require_confirmation` the user is asked first.

    Raises:
        DefinitionError: the tool has no declaration, is long-running, asks an agent, or has a name that no node can have.
    """

    @explains_wrong_calls
    def __init__(self, tool: Tool) -> None:
        if isinstance(tool, AgentTool):
            raise DefinitionError(f"{tool!r} is no node of a graph: put the agent itself into the edges")
        declared = tool.declaration()
        if declared is None or tool.is_long_running:
            raise DefinitionError(
                f"{tool!r} is no node of a graph: it has to be a tool that models call, and that answers at once"
            )
        self.tool = tool
        self.takes: JsonObject = declared.parameters or {}
        super().__init__(self._call, name=tool.name, require_confirmation=tool.require_confirmation)

    async def _call(self, ctx: NodeContext, node_input: Any) -> Any:
        arguments = self.arguments(node_input, ctx.state)
        if isinstance(self.tool, FunctionTool):
            try:
                self.tool.checked(arguments)
            except ValueError as error:
                # No model is there to correct them: it is a wrong call, as in Python and in google-adk.
                raise TypeError(str(error)) from error
        return await self.tool.run(arguments, ctx.tool_context())

    def arguments(self, given: Any, state: JsonMapping) -> JsonObject:
        """The arguments that the tool is called with. Raises WorkflowDataError."""
        value = _read(given.text if isinstance(given, Content) else given)
        required = self.takes.get("required", [])
        if isinstance(value, Mapping):
            found = dict(value)
        elif value is None:
            found = {}
        else:
            names = required if required else list(self.takes.get("properties", {}))
            if len(names) != 1:
                raise WorkflowDataError(
                    self.name, f"the tool takes {', '.join(names) or 'nothing'}: give it a dictionary of these"
                )
            found = {names[0]: value}
        for name in required:
            if name not in found and name in state:
                found[name] = state[name]
        return found

    def __repr__(self) -> str:
        return f"ToolNode({self.name})"


def _read(value: Any) -> Any:
    """An input; a text that has a dictionary as JSON as that."""
    parsed = read_json(value) if isinstance(value, str) else value
    return parsed if isinstance(parsed, dict) else value
