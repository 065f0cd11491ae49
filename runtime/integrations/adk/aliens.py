"""Which agents of google-adk have no counterpart among raygrove's."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import BaseNode, FunctionNode

from runtime.integrations.adk.graphs.reader import is_graph

_DELEGATED = ("task", "single_turn")

_CALLS_FLOW = frozenset({"super", "_llm_flow", "LlmAgent"})
"""Names by which code of a subclass has LlmAgent run, too."""

_OF_MAKING = frozenset({"model_config", "model_fields", "model_computed_fields", "model_post_init", "config_type"})
"""Names of a class that say how its objects are made."""


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
        return Alien(f"{kind} is a graph that runs in a way of its own", "write a subclass of BaseAgent, or a Flow of raygrove")
    if not runs_model(agent):
        delegates = [child for child in agent.sub_agents if is_delegate(child)]
        if delegates:
            return Alien(f"it delegates to {delegates[0].name!r} by mode={delegates[0].mode!r}", "put an LlmAgent between both")
        return None
    if changed := changed_methods(agent):
        return Alien(
            f"{kind} is a subclass of LlmAgent with {changed[0]} of its own", "use callbacks, or a subclass of BaseAgent"
        )
    if agent.mode in _DELEGATED and not is_node:
        return Alien(f"mode={agent.mode!r}", "leave it out, or use an AgentTool")
    others = [child for child in agent.sub_agents if is_delegate(child) and not runs_model(child)]
    if others:
        return Alien(f"it delegates to {others[0].name!r}, which is a {type(others[0]).__name__}", "put that into an AgentTool")
    if agent.parallel_worker:
        return Alien("parallel_worker", "leave it out, or use a ParallelAgent")
    executor = agent.code_executor
    if executor is not None and not isinstance(executor, BuiltInCodeExecutor):
        return Alien(f"code_executor={type(executor).__name__}", "give code to a tool of your own")
    nodes = [node for node in map(node_of, agent.tools) if node is not None and not (is_graph(node) or is_function(node))]
    if nodes:
        return Alien(f"the node {nodes[0].name!r} ({type(nodes[0]).__name__}) among its tools", "give a function or an AgentTool")
    return None


def runs_model(agent: Any) -> bool:
    """True for an LlmAgent; False for a subclass that has code of its own in place of what an LlmAgent does."""
    return isinstance(agent, LlmAgent) and not _has_own_run(type(agent))


def _has_own_run(kind: type) -> bool:
    """True for a class of LlmAgents whose `_run_async_impl` stands for itself."""
    own = inspect.unwrap(vars(kind).get("_run_async_impl", kind._run_async_impl))  # type: ignore[attr-defined]
    is_own = own is not LlmAgent._run_async_impl and not set(changed_methods(kind)) - {"_run_async_impl"}
    return is_own and not _CALLS_FLOW & set(own.__code__.co_names)


def changed_methods(agent: Any) -> list[str]:
    """The methods and properties of LlmAgent that a subclass has in its own way; without any it runs like an LlmAgent."""
    kind = agent if isinstance(agent, type) else type(agent)
    own = [name for each in kind.__mro__[: kind.__mro__.index(LlmAgent)] for name in vars(each)]
    return [name for name in own if name not in _OF_MAKING and not name.startswith(("__", "_abc_")) and hasattr(LlmAgent, name)]


def node_of(tool: Any) -> Any:
    """The node that a tool runs inside the invocation of its caller, which only ADK's Runner has; None for any other tool."""
    node = getattr(tool, "node", None) if isinstance(tool, BaseTool) else tool
    return node if isinstance(node, BaseNode) and not isinstance(node, BaseAgent) else None


def is_function(node: Any) -> bool:
    """True for a node that calls a function."""
    return isinstance(node, FunctionNode)


def is_delegate(agent: Any) -> bool:
    """True for an agent that works for the calls of the LlmAgent above it."""
    return getattr(agent, "mode", None) in _DELEGATED
