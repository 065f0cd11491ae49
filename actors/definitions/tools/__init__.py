"""Tools: functions and agents that models can call."""

from actors.definitions.tools.artifacts import load_artifacts
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import Actions, CallbackContext, ReadonlyContext, ToolContext
from actors.definitions.tools.exit_loop import exit_loop
from actors.definitions.tools.function import FunctionTool, LongRunningFunctionTool, tool
from actors.definitions.tools.mcp.toolset import McpTools
from actors.definitions.tools.memory import load_memory
from actors.definitions.tools.reminders.toolset import Reminders
from actors.definitions.tools.requests.built_in import (
    BuiltInCodeExecutor,
    BuiltInTool,
    code_execution,
    google_search,
    url_context,
)
from actors.definitions.tools.requests.examples import Example, ExampleTool
from actors.definitions.tools.requests.preload_memory import PreloadMemoryTool, preload_memory
from actors.definitions.tools.state import State
from actors.definitions.tools.toolset import CredentialRequest, Toolset

__all__ = [
    "Actions",
    "BuiltInCodeExecutor",
    "BuiltInTool",
    "CallbackContext",
    "CredentialRequest",
    "Example",
    "ExampleTool",
    "FunctionTool",
    "LongRunningFunctionTool",
    "McpTools",
    "PreloadMemoryTool",
    "ReadonlyContext",
    "Reminders",
    "State",
    "Tool",
    "ToolContext",
    "Toolset",
    "code_execution",
    "exit_loop",
    "google_search",
    "load_artifacts",
    "load_memory",
    "preload_memory",
    "tool",
    "url_context",
]
