"""Which agents of google-adk have no counterpart among raygrove's."""

from __future__ import annotations

from typing import Any, NamedTuple

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import BaseNode, FunctionNode

from runtime.integrations.adk.graphs.reader import is_graph

_DELEGATED = ("task", "single_turn")


class Alien(NamedTuple):
    """What an agent has that raygrove's do not have, and what its author could use instead."""

    what: str
    instead: str


def without_counterpart(agent: Any, *, is_node: bool = False) -> Alien | None:
    """The feature of an agent that has no counterpart; None for one that can be converted, its children aside.

    Args:
        is_node: it is a node of a graph, or below an LlmAgent, so that its mode has a meaning.
    """
    kind = type(agent).__name__
    if not isinstance(agent, BaseAgent):
        return Alien(f"{kind} is a node of a graph", "write a subclass of BaseAgent, or a Flow of raygrove")
    if not isinstance(agent, LlmAgent):
        delegates = [child for child in agent.sub_agents if is_delegate(child)]
        if delegates:
            return Alien(f"it delegates to {delegates[0].name!r} by mode={delegates[0].mode!r}", "put an LlmAgent between both")
        return None
    if type(agent) is not LlmAgent:
        return Alien(f"{kind} is a subclass of LlmAgent", "use callbacks, or a subclass of BaseAgent")
    if agent.mode in _DELEGATED and not is_node:
        return Alien(f"mode={agent.mode!r}", "leave it out, or use an AgentTool")
    if agent.parallel_worker:
        return Alien("parallel_worker", "leave it out, or use a ParallelAgent")
    executor = agent.code_executor
    if executor is not None and not isinstance(executor, BuiltInCodeExecutor):
        return Alien(f"code_executor={type(executor).__name__}", "give code to a tool of your own")
    nodes = [node for node in map(node_of, agent.tools) if node is not None and not (is_graph(node) or is_function(node))]
    if nodes:
        return Alien(f"the node {nodes[0].name!r} ({type(nodes[0]).__name__}) among its tools", "give a function or an AgentTool")
    return None


def node_of(tool: Any) -> Any:
    """The node that a tool runs inside the invocation of its caller, which only ADK's Runner has; None for any other tool."""
    node = getattr(tool, "node", None) if isinstance(tool, BaseTool) else tool
    return node if isinstance(node, BaseNode) and not isinstance(node, BaseAgent) else None


def is_function(node: Any) -> bool:
    """True for a node that calls a function and asks for no credentials."""
    return isinstance(node, FunctionNode) and getattr(node, "auth_config", None) is None


def is_delegate(agent: Any) -> bool:
    """True for an agent that works for the calls of the LlmAgent above it."""
    return getattr(agent, "mode", None) in _DELEGATED
