"""Definitions of agents, tools and flows, the messages they exchange, and the actors that run them.

`from actors import LlmAgent, tool` is all that most programs need of it; `runtime.Runtime` makes a tree of agents live.
"""

from actors.definitions.agents import (
    Agent,
    AgentTool,
    BaseAgent,
    CustomAgent,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    Placement,
    Plugin,
    SequentialAgent,
    Supervision,
)
from actors.definitions.flows import Flow, FlowAgent, Task
from actors.definitions.tools import (
    CallbackContext,
    FunctionTool,
    LongRunningFunctionTool,
    ReadonlyContext,
    Tool,
    ToolContext,
    Toolset,
    create_tasks,
    exit_loop,
    load_artifacts,
    load_memory,
    tool,
)
from actors.interfaces.context import InvocationContext
from actors.interfaces.model import Model
from actors.messages.config import RunConfig
from actors.messages.content import Blob, Content, FileData, FunctionCall, FunctionResponse, Part
from actors.messages.event import Event, EventActions, Usage
from actors.messages.flow import FlowMark, TaskChange, TaskNode
from actors.messages.limits import ModelLimits
from actors.messages.memory import MemoryEntry
from actors.messages.model import FunctionDeclaration, LlmRequest, LlmResponse
from actors.messages.protocol.outcomes import Cancelled, Failed, Finished, Outcome, Paused, Transfer
from actors.messages.session import Session

__all__ = [
    "Agent",
    "AgentTool",
    "BaseAgent",
    "Blob",
    "CallbackContext",
    "Cancelled",
    "Content",
    "CustomAgent",
    "Event",
    "EventActions",
    "Failed",
    "FileData",
    "Finished",
    "Flow",
    "FlowAgent",
    "FlowMark",
    "FunctionCall",
    "FunctionDeclaration",
    "FunctionResponse",
    "FunctionTool",
    "InvocationContext",
    "LlmAgent",
    "LlmRequest",
    "LlmResponse",
    "LongRunningFunctionTool",
    "LoopAgent",
    "MemoryEntry",
    "Model",
    "ModelLimits",
    "Outcome",
    "ParallelAgent",
    "Part",
    "Paused",
    "Placement",
    "Plugin",
    "ReadonlyContext",
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
    "create_tasks",
    "exit_loop",
    "load_artifacts",
    "load_memory",
    "tool",
]
