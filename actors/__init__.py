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
    name: module
    for module, names in {
        "actors.definitions.agents": "Agent BaseAgent LlmAgent Placement Plugin",
        "actors.definitions.agents.llm": "BasePlanner",
        "actors.definitions.tools": (
            "BuiltInCodeExecutor CallbackContext CredentialRequest FunctionTool LongRunningFunctionTool ReadonlyContext "
            "Tool ToolContext Toolset tool"
        ),
        "actors.interfaces.model": "Model",
        "actors.layers.agent_tool": "AgentTool",
        "actors.layers.background.tools": "ask_parent",
        "actors.layers.compaction.definitions": "EventsCompactionConfig LlmEventSummarizer",
        "actors.layers.custom.definitions": "CustomAgent InvocationContext",
        "actors.layers.flows.definitions": "Flow FlowAgent Task",
        "actors.layers.flows.definitions.task_tools": "create_tasks",
        "actors.layers.flows.rules.until": "AllComplete AnyComplete AnyFailed MaxAgentTurns MaxLLMCalls",
        "actors.layers.graphs.definitions": (
            "DEFAULT_ROUTE Edge FunctionNode Graph ItemError JoinNode NodeContext PartialResults RequestInput RetryConfig "
            "START Workflow node"
        ),
        "actors.layers.limiter.limits": "ModelLimits",
        "actors.layers.tools": (
            "BuiltInPlanner BuiltInTool Example ExampleTool McpTools PlanReActPlanner PreloadMemoryTool Reminders "
            "code_execution exit_loop google_search load_artifacts load_memory preload_memory url_context"
        ),
        "actors.layers.workflows.definitions": "LoopAgent ParallelAgent SequentialAgent Supervision",
        "actors.messages.config": "Background Budget RunConfig",
        "actors.messages.content": "Blob Content FileData FunctionCall FunctionResponse Part Received",
        "actors.messages.costs": "BudgetWarning Price",
        "actors.messages.event": "Event EventActions EventCompaction Usage",
        "actors.messages.flow": "FlowMark TaskChange TaskNode",
        "actors.messages.graph": "NodeInfo",
        "actors.messages.llm": "FunctionDeclaration GenerateContentConfig LlmRequest LlmResponse",
        "actors.messages.protocol.runs": "Cancelled Failed Finished Outcome Paused Transfer",
        "actors.messages.session": "MemoryEntry Session",
        "actors.messages.turn_info": "BackgroundRun",
    }.items()
    for name in names.split()
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
