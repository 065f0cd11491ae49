"""Tools: what an agent can do besides talking."""

from actors.tools.artifacts import load_artifacts
from actors.tools.base import Tool
from actors.tools.context import Actions, CallbackContext, ReadonlyContext, State, ToolContext
from actors.tools.exit_loop import exit_loop
from actors.tools.function import FunctionTool, LongRunningTool, tool
from actors.tools.memory import load_memory
from actors.tools.tasks import create_tasks

__all__ = [
    "Actions",
    "CallbackContext",
    "FunctionTool",
    "LongRunningTool",
    "ReadonlyContext",
    "State",
    "Tool",
    "ToolContext",
    "create_tasks",
    "exit_loop",
    "load_artifacts",
    "load_memory",
    "tool",
]
