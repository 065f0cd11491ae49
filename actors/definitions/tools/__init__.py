"""Tools: functions and agents that models can call."""

from actors.definitions.tools.artifacts import load_artifacts
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import Actions, CallbackContext, ReadonlyContext, State, ToolContext
from actors.definitions.tools.exit_loop import exit_loop
from actors.definitions.tools.function import FunctionTool, LongRunningFunctionTool, tool
from actors.definitions.tools.memory import load_memory
from actors.definitions.tools.tasks import create_tasks
from actors.definitions.tools.toolset import Toolset

__all__ = [
    "Actions",
    "CallbackContext",
    "FunctionTool",
    "LongRunningFunctionTool",
    "ReadonlyContext",
    "State",
    "Tool",
    "ToolContext",
    "Toolset",
    "create_tasks",
    "exit_loop",
    "load_artifacts",
    "load_memory",
    "tool",
]
