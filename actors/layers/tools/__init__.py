"""Tools and planners that come with raygrove, beside those that agents are made of."""

from actors.layers.mcp.toolset import McpTools
from actors.layers.planning import BuiltInPlanner, PlanReActPlanner
from actors.layers.schedules.reminders import Reminders
from actors.layers.tools.built_in import (
    BuiltInTool,
    PreloadMemoryTool,
    code_execution,
    exit_loop,
    google_search,
    load_artifacts,
    load_memory,
    preload_memory,
    url_context,
)
from actors.layers.tools.examples import Example, ExampleTool

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
