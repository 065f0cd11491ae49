"""Definitions of agents, tools and flows, the messages they exchange, and the actors that run them.

`from actors import LlmAgent, tool` is all that most programs need of it; `runtime.Runtime` makes a tree of agents live.

The names below are loaded when they are first used: what only sends messages needs no definitions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from raygrove.other_names import refuse_other_name
from raygrove.shadowing import refuse_hidden_packages

if TYPE_CHECKING:
    from actors.definitions.agents import (
        Agent,
        BaseAgent,
        LlmAgent,
        Placement,
        Plugin,
    )
    from actors.definitions.agents.llm import BasePlanner
    from actors.definitions.tools import (
        BuiltInCodeExecutor,
        CallbackContext,
        CredentialRequest,
        FunctionTool,
        LongRunningFunctionTool,
        ReadonlyContext,
        Tool,
        ToolContext,
        Toolset,
        tool,
    )
    from actors.interfaces.model import Model
    from actors.layers.agent_tool import AgentTool
    from actors.layers.background.tools import ask_parent
    from actors.layers.compaction.definitions import EventsCompactionConfig, LlmEventSummarizer
    from actors.layers.custom.definitions import CustomAgent, InvocationContext
    from actors.layers.flows.definitions import Flow, FlowAgent, Task
    from actors.layers.flows.definitions.task_tools import create_tasks
    from actors.layers.flows.rules.until import AllComplete, AnyComplete, AnyFailed, MaxAgentTurns, MaxLLMCalls
    from actors.layers.graphs.definitions import (
        DEFAULT_ROUTE,
        START,
        Edge,
        FunctionNode,
        Graph,
        ItemError,
        JoinNode,
        NodeContext,
        PartialResults,
        RequestInput,
        RetryConfig,
        Workflow,
        node,
    )
    from actors.layers.limiter.limits import ModelLimits
    from actors.layers.tools import (
        BuiltInPlanner,
        BuiltInTool,
        Example,
        ExampleTool,
        McpTools,
        PlanReActPlanner,
        PreloadMemoryTool,
        Reminders,
        code_execution,
        exit_loop,
        google_search,
        load_artifacts,
        load_memory,
        preload_memory,
        url_context,
    )
    from actors.layers.workflows.definitions import LoopAgent, ParallelAgent, SequentialAgent, Supervision
    from actors.messages.config import Background, Budget, RunConfig
    from actors.messages.content import Blob, Content, FileData, FunctionCall, FunctionResponse, Part, Received
    from actors.messages.costs import BudgetWarning, Price
    from actors.messages.event import Event, EventActions, EventCompaction, Usage
    from actors.messages.flow import FlowMark, TaskChange, TaskNode
    from actors.messages.graph import NodeInfo
    from actors.messages.llm import FunctionDeclaration, GenerateContentConfig, LlmRequest, LlmResponse
    from actors.messages.protocol.runs import Cancelled, Failed, Finished, Outcome, Paused, Transfer
    from actors.messages.session import MemoryEntry, Session
    from actors.messages.turn_info import BackgroundRun

__all__ = [
    "DEFAULT_ROUTE",
    "START",
    "Agent",
    "AgentTool",
    "AllComplete",
    "AnyComplete",
    "AnyFailed",
    "Background",
    "BackgroundRun",
    "BaseAgent",
    "BasePlanner",
    "Blob",
    "Budget",
    "BudgetWarning",
    "BuiltInCodeExecutor",
    "BuiltInPlanner",
    "BuiltInTool",
    "CallbackContext",
    "Cancelled",
    "Content",
    "CredentialRequest",
    "CustomAgent",
    "Edge",
    "Event",
    "EventActions",
    "EventCompaction",
    "EventsCompactionConfig",
    "Example",
    "ExampleTool",
    "Failed",
    "FileData",
    "Finished",
    "Flow",
    "FlowAgent",
    "FlowMark",
    "FunctionCall",
    "FunctionDeclaration",
    "FunctionNode",
    "FunctionResponse",
    "FunctionTool",
    "GenerateContentConfig",
    "Graph",
    "InvocationContext",
    "ItemError",
    "JoinNode",
    "LlmAgent",
    "LlmEventSummarizer",
    "LlmRequest",
    "LlmResponse",
    "LongRunningFunctionTool",
    "LoopAgent",
    "MaxAgentTurns",
    "MaxLLMCalls",
    "McpTools",
    "MemoryEntry",
    "Model",
    "ModelLimits",
    "NodeContext",
    "NodeInfo",
    "Outcome",
    "ParallelAgent",
    "Part",
    "PartialResults",
    "Paused",
    "Placement",
    "PlanReActPlanner",
    "Plugin",
    "PreloadMemoryTool",
    "Price",
    "ReadonlyContext",
    "Received",
    "Reminders",
    "RequestInput",
    "RetryConfig",
    "RunConfig",
    "SequentialAgent",
    "Session",
    "Supervision",
    "Task",
    "TaskChange",
    "TaskNode",
    "Tool",
    "ToolContext",
    "Toolset",
    "Transfer",
    "Usage",
    "Workflow",
    "ask_parent",
    "code_execution",
    "create_tasks",
    "exit_loop",
    "google_search",
    "load_artifacts",
    "load_memory",
    "node",
    "preload_memory",
    "tool",
    "url_context",
]

_MODULES = {
    "Agent": "actors.definitions.agents",
    "AgentTool": "actors.layers.agent_tool",
    "AllComplete": "actors.layers.flows.rules.until",
    "AnyComplete": "actors.layers.flows.rules.until",
    "AnyFailed": "actors.layers.flows.rules.until",
    "Background": "actors.messages.config",
    "BackgroundRun": "actors.messages.turn_info",
    "BaseAgent": "actors.definitions.agents",
    "BasePlanner": "actors.definitions.agents.llm",
    "Blob": "actors.messages.content",
    "Budget": "actors.messages.config",
    "BudgetWarning": "actors.messages.costs",
    "BuiltInCodeExecutor": "actors.definitions.tools",
    "BuiltInPlanner": "actors.layers.tools",
    "BuiltInTool": "actors.layers.tools",
    "CallbackContext": "actors.definitions.tools",
    "Cancelled": "actors.messages.protocol.runs",
    "Content": "actors.messages.content",
    "CredentialRequest": "actors.definitions.tools",
    "CustomAgent": "actors.layers.custom.definitions",
    "DEFAULT_ROUTE": "actors.layers.graphs.definitions",
    "Edge": "actors.layers.graphs.definitions",
    "Event": "actors.messages.event",
    "EventActions": "actors.messages.event",
    "EventCompaction": "actors.messages.event",
    "EventsCompactionConfig": "actors.layers.compaction.definitions",
    "Example": "actors.layers.tools",
    "ExampleTool": "actors.layers.tools",
    "Failed": "actors.messages.protocol.runs",
    "FileData": "actors.messages.content",
    "Finished": "actors.messages.protocol.runs",
    "Flow": "actors.layers.flows.definitions",
    "FlowAgent": "actors.layers.flows.definitions",
    "FlowMark": "actors.messages.flow",
    "FunctionCall": "actors.messages.content",
    "FunctionDeclaration": "actors.messages.llm",
    "FunctionNode": "actors.layers.graphs.definitions",
    "FunctionResponse": "actors.messages.content",
    "FunctionTool": "actors.definitions.tools",
    "GenerateContentConfig": "actors.messages.llm",
    "Graph": "actors.layers.graphs.definitions",
    "InvocationContext": "actors.layers.custom.definitions",
    "ItemError": "actors.layers.graphs.definitions",
    "JoinNode": "actors.layers.graphs.definitions",
    "LlmAgent": "actors.definitions.agents",
    "LlmEventSummarizer": "actors.layers.compaction.definitions",
    "LlmRequest": "actors.messages.llm",
    "LlmResponse": "actors.messages.llm",
    "LongRunningFunctionTool": "actors.definitions.tools",
    "LoopAgent": "actors.layers.workflows.definitions",
    "MaxAgentTurns": "actors.layers.flows.rules.until",
    "MaxLLMCalls": "actors.layers.flows.rules.until",
    "McpTools": "actors.layers.tools",
    "MemoryEntry": "actors.messages.session",
    "Model": "actors.interfaces.model",
    "ModelLimits": "actors.layers.limiter.limits",
    "NodeContext": "actors.layers.graphs.definitions",
    "NodeInfo": "actors.messages.graph",
    "Outcome": "actors.messages.protocol.runs",
    "ParallelAgent": "actors.layers.workflows.definitions",
    "Part": "actors.messages.content",
    "PartialResults": "actors.layers.graphs.definitions",
    "Paused": "actors.messages.protocol.runs",
    "Placement": "actors.definitions.agents",
    "PlanReActPlanner": "actors.layers.tools",
    "Plugin": "actors.definitions.agents",
    "PreloadMemoryTool": "actors.layers.tools",
    "Price": "actors.messages.costs",
    "ReadonlyContext": "actors.definitions.tools",
    "Reminders": "actors.layers.tools",
    "RequestInput": "actors.layers.graphs.definitions",
    "RetryConfig": "actors.layers.graphs.definitions",
    "Received": "actors.messages.content",
    "RunConfig": "actors.messages.config",
    "START": "actors.layers.graphs.definitions",
    "SequentialAgent": "actors.layers.workflows.definitions",
    "Session": "actors.messages.session",
    "Supervision": "actors.layers.workflows.definitions",
    "Task": "actors.layers.flows.definitions",
    "TaskChange": "actors.messages.flow",
    "TaskNode": "actors.messages.flow",
    "Tool": "actors.definitions.tools",
    "ToolContext": "actors.definitions.tools",
    "Toolset": "actors.definitions.tools",
    "Transfer": "actors.messages.protocol.runs",
    "Usage": "actors.messages.event",
    "Workflow": "actors.layers.graphs.definitions",
    "ask_parent": "actors.layers.background.tools",
    "code_execution": "actors.layers.tools",
    "create_tasks": "actors.layers.flows.definitions.task_tools",
    "exit_loop": "actors.layers.tools",
    "google_search": "actors.layers.tools",
    "load_artifacts": "actors.layers.tools",
    "load_memory": "actors.layers.tools",
    "node": "actors.layers.graphs.definitions",
    "preload_memory": "actors.layers.tools",
    "tool": "actors.definitions.tools",
    "url_context": "actors.layers.tools",
}

# Here, so that a program hears of its own file before a name is missing in it.
refuse_hidden_packages()


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        refuse_other_name("actors", name)
        raise AttributeError(f"module 'actors' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
