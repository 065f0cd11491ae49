"""Makes a graph of a `Workflow`: its agents are actors, its other nodes are called in the actor of the graph.

Which node is next, branches, joins, attempts, questions and the log are raygrove's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Annotated, Any

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.workflow import DEFAULT_ROUTE as ADK_DEFAULT_ROUTE
from google.adk.workflow import START as ADK_START
from google.adk.workflow import BaseNode, Workflow
from google.adk.workflow import JoinNode as AdkJoinNode
from pydantic import BaseModel, WithJsonSchema, create_model

from actors.definitions.agents import BaseAgent
from actors.errors import DefinitionError
from actors.layers.graphs.definitions import DEFAULT_ROUTE, START, Edge, FunctionGraph, Graph, JoinNode, function_graph
from actors.layers.graphs.definitions.nodes import ParallelWorker, TriedAgent
from runtime.integrations.adk.graph_nodes import ParallelWorkerNode, function_node, own_retry, with_worker

_around: ContextVar[Any] = ContextVar("_around", default=None)
"""The `state_schema` of the Workflow whose agents and Workflows are being made."""


def is_graph(agent: Any) -> bool:
    """True for a Workflow that runs its nodes as ADK's does."""
    return isinstance(agent, Workflow) and type(agent)._run_impl is Workflow._run_impl


class GraphReader:
    """Makes a graph of a Workflow.

    Args:
        workflow: the Workflow.
        convert: makes an agent of raygrove of an agent or a Workflow that is a node.
    """

    def __init__(self, workflow: Any, app_name: str, convert: Callable[[Any], BaseAgent]) -> None:
        self._workflow = workflow
        # ADK looks for it in the contexts around that of a node.
        self._state_schema = workflow.state_schema or _around.get()
        self._app_name = app_name
        self._convert = convert
        self._nodes: dict[int, Any] = {}
        self._agents: dict[str, BaseAgent] = {}

    def graph(self) -> Graph:
        """The graph. Raises DefinitionError for what is not carried over."""
        workflow = self._workflow
        if workflow.wait_for_output:
            raise DefinitionError(f"agent {workflow.name!r}: wait_for_output of a Workflow is not carried over: leave it out")
        given = workflow.graph.edges if workflow.graph is not None else ()
        edges = [Edge(self._node(edge.from_node), self._node(edge.to_node), _own_route(edge.route)) for edge in given]
        for each in list(_nodes_of(workflow)):
            for agent in _agents_named_in(each):
                if agent.name not in self._agents:
                    self._agent(agent)
        return Graph(
            name=workflow.name,
            description=workflow.description,
            edges=edges,
            max_concurrency=workflow.max_concurrency,
            input_schema=workflow.input_schema,
            output_schema=workflow.output_schema,
            # ADK knows no terminal nodes of a graph that is given as a whole.
            one_output=bool(workflow.edges),
            sub_agents=list(self._agents.values()),
            retry_config=own_retry(workflow.retry_config),
            timeout=workflow.timeout,
        )

    def _node(self, given: Any) -> Any:
        if given is ADK_START or given.name == ADK_START.name:
            return START
        if id(given) not in self._nodes:
            self._nodes[id(given)] = self._made(given)
        return self._nodes[id(given)]

    def _made(self, given: Any) -> Any:
        node = with_worker(given)
        if isinstance(node, ParallelWorkerNode):
            return ParallelWorker(self._node(node._node), max_parallel_workers=node.max_parallel_workers)
        if isinstance(node, AdkBaseAgent | Workflow):
            agent, retry, timeout = self._agent(node), own_retry(node.retry_config), node.timeout
            return agent if retry is None and timeout is None else TriedAgent(agent, retry_config=retry, timeout=timeout)
        if type(node) is AdkJoinNode:
            return JoinNode(node.name, input_schema=node.input_schema)
        return function_node(node, self._app_name, self._state_schema)

    def _agent(self, given: Any) -> BaseAgent:
        # Those that are no Workflow have contexts without one.
        around = _around.set(self._state_schema if is_graph(given) else None)
        try:
            self._agents[given.name] = agent = self._convert(given)
        finally:
            _around.reset(around)
        return agent


def function(node: Any, description: str, app_name: str, convert: Callable[[Any], BaseAgent]) -> FunctionGraph:
    """A FunctionNode among the tools of an agent, with the agents that it may run.

    Args:
        description: of the tool.
        app_name, convert: see GraphReader.
    """
    # All its parameters come from the call.
    node = node._as_tool_node()
    graph = GraphReader(Workflow(name=node.name, edges=[(ADK_START, node)]), app_name, convert).graph()
    return function_graph(graph, _arguments(node), description or node.description)


def lone_node(node: Any, app_name: str, convert: Callable[[Any], BaseAgent]) -> FunctionGraph:
    """A node that is no agent, where an agent is expected; see `function`."""
    graph = GraphReader(Workflow(name=node.name, edges=[(ADK_START, node)]), app_name, convert).graph()
    return function_graph(graph, None, node.description)


def _arguments(node: Any) -> type[BaseModel]:
    """The class of the arguments of a call, which ADK's own code checks once more."""
    if inspect.isclass(node.input_schema) and issubclass(node.input_schema, BaseModel):
        return node.input_schema
    schema: Mapping[str, Any] = node.input_schema or {}
    required = schema.get("required", ())
    fields: dict[str, Any] = {
        name: (Annotated[Any, WithJsonSchema(each)], ... if name in required else each.get("default"))
        for name, each in schema.get("properties", {}).items()
    }
    return create_model(node.name, **fields)


def _own_route(route: Any) -> Any:
    return DEFAULT_ROUTE if route == ADK_DEFAULT_ROUTE and isinstance(route, str) else route


def _nodes_of(workflow: Any) -> Iterator[Any]:
    for node in workflow.graph.nodes if workflow.graph is not None else ():
        inner = with_worker(node)
        yield inner._node if isinstance(inner, ParallelWorkerNode) else inner


def _agents_named_in(node: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """The agents and Workflows that the code of a node refers to, and may run: ADK learns of them when they are run."""
    seen = set() if seen is None else seen
    if id(node) in seen or isinstance(node, AdkBaseAgent | Workflow):
        return
    seen.add(id(node))
    for named in _referred(node):
        each = named._node if isinstance(named, ParallelWorkerNode) else named
        if isinstance(each, AdkBaseAgent | Workflow):
            yield each
        elif isinstance(each, BaseNode) or inspect.isfunction(each):
            yield from _agents_named_in(each, seen)


def _referred(node: Any) -> Iterator[Any]:
    function = getattr(node, "_func", node)
    if isinstance(node, BaseNode) and function is node:
        yield from _flat(vars(node).values())
        function = type(node)._run_impl
        own = getattr(type(node), "run_node_impl", None)
        function = own if own is not None and inspect.isfunction(own) and own.__module__ != BaseNode.__module__ else function
    function = inspect.unwrap(function) if callable(function) else function
    if inspect.ismethod(function):
        yield from _flat(vars(function.__self__).values()) if hasattr(function.__self__, "__dict__") else ()
        function = function.__func__
    if inspect.isfunction(function):
        try:
            found = inspect.getclosurevars(function)
        except ValueError:
            # A variable of its closure has no value yet.
            return
        yield from _flat([*found.nonlocals.values(), *found.globals.values()])


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple | set):
            yield from value
        elif isinstance(value, Mapping):
            yield from value.values()
        else:
            yield value
