"""The agent that runs a graph of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, ClassVar, Literal, Never

from pydantic import Field

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.schemas import OutputType
from actors.errors import GraphValidationError
from actors.layers.graphs.definitions.checks import StateSchema
from actors.layers.graphs.definitions.edges import AgentName, Edge, EdgeReader, name_of_end
from actors.layers.graphs.definitions.nodes import (
    FunctionNode,
    JoinNode,
    ParallelWorker,
    RetryConfig,
    TriedAgent,
    check_attempts,
    checked_type,
    model_class,
)
from actors.layers.graphs.rules.shape import START, Shape, flaws
from actors.messages.graph import Arrow, GraphShape
from actors.messages.shown import shown
from actors.messages.topology import CHAT, TASK


class Graph(BaseAgent):
    """Runs its nodes along edges: agents, functions and joins; one after the other, side by side, by routes, in circles.

    Agents of all kinds may be nodes: one is asked what the node before has given, sees nothing else of the conversation, and its
    answer is its output. The output of the graph is that of the last of its terminal nodes. A graph may be a node of another one.

    Attributes:
        edges: as they were written, one by one: see EdgeReader.read.
        max_concurrency: so many nodes run at a time; None, the default: all that can.
        input_schema: a type that the input has to fit, see LlmAgent's output_schema; the user's message is read as JSON. Default
            None.
        output_schema: a type that the output has to fit; default None.
        state_schema: a pydantic model of the state: its functions read and write no other key, nor do those of graphs in it that
            have none; default None.
        one_output: it fails with a SeveralOutputsError when several of its terminal nodes have given one, as a Workflow of
            google-adk does; default False: the last one counts.
        retry_config: tries it again when it fails: what has ended stays so; default None.
        timeout: seconds for one attempt; default None, for no limit.
        sub_agents: the agents among the nodes, which need not be given; and others, for functions that `ctx.run_node`.

    Raises:
        AgentTreeError: no agent can have that name.
        GraphValidationError: the nodes and edges form no graph that can run; the message says why.
        DefinitionError: something that is no node stands in it.
    """

    kind: ClassVar[Literal["graph"]] = "graph"
    is_function: ClassVar[bool] = False

    edges: Sequence[Any] = ()
    max_concurrency: int | None = Field(default=None, ge=1)
    input_schema: Any = None
    output_schema: Any = None
    state_schema: Any = None
    one_output: bool = False
    retry_config: RetryConfig | None = None
    timeout: float | None = None

    def __init__(self, *unnamed: Never, **fields: Any) -> None:
        edges = EdgeReader().read(fields.get("edges", ()))
        if not self.is_function:
            edges = _placed(edges, fields.get("state_schema"))
        agents = {id(each): each for each in map(_agent_of, _distinct(edges)) if each is not None}
        given = fields.get("sub_agents", ())
        if isinstance(given, list | tuple):
            given = [*agents.values(), *(each for each in given if id(each) not in agents)]
        super().__init__(*unnamed, **{**fields, "edges": edges, "sub_agents": given})
        self._check()
        self._check_schemas()

    def _check(self) -> None:
        check_attempts(f"graph {self.name!r}", self.retry_config, self.timeout)
        named: dict[str, object] = {}
        for each in _distinct(self.edges):
            if named.setdefault(name_of_end(each), each) is not each:
                raise GraphValidationError(
                    f"graph {self.name!r} has two nodes called {name_of_end(each)!r}: names are unique, so rename one"
                )
        for arrow in self.shape.arrows:
            behind = () if arrow.source == START else (arrow.target,)
            for end in (arrow.source, *behind):
                if getattr(self.nodes.get(end), "mode", None) == CHAT:
                    raise GraphValidationError(
                        f"graph {self.name!r}: agent {end!r} has mode='chat', a conversation with the user that has no end, so "
                        "it stands behind START, and no edge leads on from it. Use mode='task' for one that hands on a result"
                    )
        for flaw in flaws(self.shape):
            raise GraphValidationError(f"graph {self.name!r} {flaw}")

    def _check_schemas(self) -> None:
        # Made here, and sent as they are: see OutputType.
        _ = self.input_type, self.output_type
        for edge in self.edges:
            given, wanted = _given_by(edge.from_node), _wanted_by(edge.to_node)
            if given is not None and wanted is not None and not _fits(given, wanted):
                raise GraphValidationError(
                    f"graph {self.name!r}: {edge.to_node.name!r} has another input_schema than the output_schema of "
                    f"{edge.from_node.name!r}, {shown(wanted)} and not {shown(given)}: give both the same, of a function as the "
                    "type of `node_input` and as what it returns"
                )
        if self.state is not None:
            for each in _distinct(self.edges):
                if isinstance(each, FunctionNode):
                    self.state.check_parameters(each.name, [name for name in each.parameters if name != "node_input"])

    @cached_property
    def input_type(self) -> OutputType | None:
        """The type of the input, made of `input_schema`; None without one."""
        return checked_type(f"graph {self.name!r}", "input_schema", self.input_schema)

    @cached_property
    def output_type(self) -> OutputType | None:
        """The type of the output, made of `output_schema`; None without one."""
        return checked_type(f"graph {self.name!r}", "output_schema", self.output_schema)

    @cached_property
    def state(self) -> StateSchema | None:
        """The keys of the state that its functions may use, made of `state_schema`; None: all."""
        return StateSchema(self.state_schema) if self.state_schema is not None else None

    @cached_property
    def shape(self) -> Shape:
        """The graph without what its nodes do."""
        arrows = [Arrow(name_of_end(edge.from_node), name_of_end(edge.to_node), edge.routes) for edge in self.edges]
        return Shape(arrows, {name for name, each in self.nodes.items() if isinstance(each, JoinNode)})

    def told_shape(self) -> GraphShape:
        """Its edges and nodes by their names, as others than its own actor know it."""
        waits = (name for name, each in self.nodes.items() if getattr(_function_of(each), "wait_for_output", False))
        return GraphShape(arrows=self.shape.arrows, joins=tuple(self.shape.joins), patient=tuple(waits))

    @cached_property
    def agents(self) -> Mapping[str, AgentName]:
        """The agents that may run in it, by name."""
        return {each.name: _named(each) for each in self.sub_agents}

    @cached_property
    def nodes(self) -> Mapping[str, Any]:
        """The nodes by name."""
        return {each.name: each for each in _distinct(self.edges)}

    def node_fields(self) -> Mapping[str, Any]:
        """Its shape, and the form of its input: see BaseAgent."""
        fields: dict[str, Any] = {} if self.is_function else {"graph": self.told_shape()}
        return {**fields, "input_schema": self.input_type.json_schema} if self.input_type is not None else fields

    def placed_below(self, above: Iterable[BaseAgent]) -> BaseAgent:
        """The definition with the `state_schema` of a graph around it, if it has none itself: see BaseAgent."""
        if self.state_schema is not None:
            return self
        around = takewhile(lambda each: isinstance(each, Graph), above)
        schema = next((found for each in around if (found := getattr(each, "state_schema", None)) is not None), None)
        if schema is None:
            return self
        changed = self.unchecked_copy(state_schema=schema)
        changed.__dict__.pop("state", None)
        return changed

    def alone(self) -> BaseAgent:
        """The same definition with its agents by name only, as it is sent to the graph's actor."""
        names = self.agents

        def end(node: object) -> object:
            if isinstance(node, ParallelWorker):
                return node.of(end(node.node))
            if isinstance(node, TriedAgent):
                return names[node.name].tried(node.retry_config, node.timeout)
            return names[node.name] if isinstance(node, BaseAgent) else node

        known: dict[int, object] = {}
        for each in _distinct(self.edges):
            known[id(each)] = end(each)
        edges = tuple(
            Edge(known.get(id(edge.from_node), START), known.get(id(edge.to_node), START), edge.route) for edge in self.edges
        )
        alone = self.unchecked_copy(sub_agents=(), edges=edges)
        alone.__dict__["agents"] = names
        for cached in ("shape", "nodes"):
            alone.__dict__.pop(cached, None)
        return alone


class FunctionGraph(Graph):
    """A graph of one node that calls a function: it stands for that node, whose path and name are its own.

    Attributes: see Graph. Made of a FunctionNode in the `tools` of an LlmAgent, and of one in edges that has a `placement`.
    """

    is_function: ClassVar[bool] = True

    @property
    def function(self) -> FunctionNode:
        """The only node."""
        node: FunctionNode = self.edges[0].to_node
        return node


def _placed(edges: Sequence[Edge], state_schema: Any) -> tuple[Edge, ...]:
    """The edges, with agents for those functions that run in processes of their own."""
    made: dict[int, Any] = {}

    def end(node: Any) -> Any:
        if id(node) in made:
            return made[id(node)]
        found = node
        if isinstance(node, FunctionNode) and node.placement is not None:
            found = FunctionGraph(name=node.name, edges=[Edge(START, node)], placement=node.placement, state_schema=state_schema)
        elif isinstance(node, ParallelWorker) and (inner := end(node.node)) is not node.node:
            found = node.of(inner)
        made[id(node)] = found
        return found

    return tuple(Edge(end(edge.from_node), end(edge.to_node), edge.route) for edge in edges)


def _named(agent: BaseAgent) -> AgentName:
    input_class = agent.input_schema if isinstance(agent, LlmAgent) else None
    waits = False
    if isinstance(agent, FunctionGraph):
        input_class, waits = agent.function.input_class, agent.function.wait_for_output
    elif isinstance(agent, Graph):
        input_class = model_class(agent.input_schema)
    retry, timeout = (agent.retry_config, agent.timeout) if isinstance(agent, Graph) else (None, None)
    return AgentName(agent.name, _sees_conversation(agent), agent.kind == "graph", retry, timeout, input_class, waits)


def _sees_conversation(agent: BaseAgent) -> bool:
    """True where that was asked for: what is the default elsewhere is not for nodes, and an agent with a task sees only that."""
    if not isinstance(agent, LlmAgent) or agent.mode == TASK:
        return False
    is_asked_for = "include_contents" in agent.model_fields_set and agent.include_contents == "default"
    return is_asked_for or agent.mode == CHAT


def _agent_of(node: object) -> BaseAgent | None:
    """The agent that a node is, or runs."""
    inner = node
    while isinstance(inner, ParallelWorker | TriedAgent):
        inner = inner.node
    return inner if isinstance(inner, BaseAgent) else None


def _function_of(node: object) -> object:
    """The function that a node calls, also in a process of its own; any other node, without what tries it again."""
    inner = node.node if isinstance(node, TriedAgent) else node
    return inner.function if isinstance(inner, FunctionGraph) else inner


def _given_by(node: object) -> Any:
    """The schema of what a node says that it gives; None: it says nothing."""
    inner = _function_of(node)
    return inner.output_class if isinstance(inner, FunctionNode) else getattr(inner, "output_schema", None)


def _wanted_by(node: object) -> Any:
    inner = _function_of(node)
    return inner.input_class if isinstance(inner, FunctionNode) else getattr(inner, "input_schema", None)


def _fits(given: Any, wanted: Any) -> bool:
    is_below = isinstance(given, type) and isinstance(wanted, type) and issubclass(given, wanted)
    return is_below or bool(given == wanted)


def _distinct(edges: Sequence[Edge]) -> Iterator[Any]:
    """Each node once, in the order of the edges."""
    seen: set[int] = set()
    for edge in edges:
        for end in (edge.from_node, edge.to_node):
            if end != START and id(end) not in seen:
                seen.add(id(end))
                yield end
