"""Tools and planners that come with raygrove, beside those that agents are made of."""

from actors.layers.mcp.toolset import McpTools
from actors.layers.schedules.reminders import Reminders
from actors.layers.tools.artifacts import load_artifacts
from actors.layers.tools.built_in import BuiltInTool, code_execution, google_search, url_context
from actors.layers.tools.examples import Example, ExampleTool
from actors.layers.tools.exit_loop import exit_loop
from actors.layers.tools.memory import PreloadMemoryTool, load_memory, preload_memory
from actors.layers.tools.planners import BuiltInPlanner, PlanReActPlanner

__all__ = [
    "BuiltInPlanner",
    "BuiltInTool",
    "Example",
    "ExampleTool",
    "McpTools",
    "PlanReActPlanner",
    "PreloadMemoryTool",
    "Reminders",
    "code_execution",
    "exit_loop",
    "google_search",
    "load_artifacts",
    "load_memory",
    "preload_memory",
    "url_context",
]
