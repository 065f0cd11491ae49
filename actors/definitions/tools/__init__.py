"""Tools: functions and agents that models can call. Those of features are in `actors.layers.tools`."""

from actors.definitions.tools.base import BuiltInCodeExecutor, CredentialRequest, Tool, Toolset
from actors.definitions.tools.context import Actions, CallbackContext, ReadonlyContext, ToolContext
from actors.definitions.tools.function import FunctionTool, LongRunningFunctionTool, tool
from actors.definitions.tools.state import State

__all__ = [
    "Actions",
    "BuiltInCodeExecutor",
    "CallbackContext",
    "CredentialRequest",
    "FunctionTool",
    "LongRunningFunctionTool",
    "ReadonlyContext",
    "State",
    "Tool",
    "ToolContext",
    "Toolset",
    "tool",
]
