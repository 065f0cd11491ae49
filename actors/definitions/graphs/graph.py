"""The agent that runs a graph of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, Never

from pydantic import Field

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.custom import CustomAgent
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.agents.output_type import OutputType
from actors.definitions.graphs.edges import AgentName, Edge, EdgeReader, name_of_end
from actors.definitions.graphs.nodes import FunctionNode, JoinNode, ParallelWorker, TriedAgent, checked_type
from actors.definitions.graphs.state_schema import StateSchema
from actors.errors import DefinitionError, GraphValidationError
from actors.messages.graph import Arrow, GraphShape
from actors.messages.topology import CHAT, TASK
from actors.rules.graph.shape import START, Shape, flaws


class Graph(BaseAgent):
    """Runs its nodes along edges: agents, functions and joins; one after the other, side by side, by routes, in circles.

    An agent that is a node is asked what the node before has given, sees nothing else of the conversation, and its answer is its
    output. The output of the graph is that of the last of its terminal nodes. A graph may be a node of another one.

    Attributes:
        edges: as they were written, one by one: see EdgeReader.read.
        max_concurrency: so many nodes run at a time; None, the default: all that can.
        input_schema: a type that the input has to fit, see LlmAgent's output_schema; the user's message is read as JSON. Default
            None.
        output_schema: a type that the output has to fit; default None.
        state_schema: a pydantic model of the state: its functions read and write no other key; default None.
        sub_agents: the agents among the nodes, which need not be given; and others, for functions that `ctx.run_node`.

    Raises:
        AgentTreeError: no agent can have that name.
        GraphValidationError: the nodes and edges form no graph that can run; the message says why.
        DefinitionError: something that is no node stands in it, or an agent that cannot be one.
    """

    kind: ClassVar[Literal["graph"]] = "graph"
    is_function: ClassVar[bool] = False

    edges: Sequence[Any] = ()
    max_concurrency: int | None = Field(default=None, ge=1)
    input_schema: Any = None
    output_schema: Any = None
    state_schema: Any = None

    def __init__(self, *unnamed: Never, **fields: Any) -> None:
        edges = EdgeReader().read(fields.get("edges", ()))
        agents = {id(each): each for each in map(_agent_of, _distinct(edges)) if each is not None}
        given = fields.get("sub_agents", ())
        if isinstance(given, list | tuple):
            given = [*agents.values(), *(each for each in given if id(each) not in agents)]
        super().__init__(*unnamed, **{**fields, "edges": edges, "sub_agents": given})
        self._check()
        self._check_schemas()

    def _check(self) -> None:
        named: dict[str, object] = {}
        for each in _distinct(self.edges):
            if named.setdefault(name_of_end(each), each) is not each:
                raise GraphValidationError(
                    f"graph {self.name!r} has two nodes called {name_of_end(each)!r}: names are unique, so rename one"
                )
        for agent in self.sub_agents:
            self._check_agent(agent)
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
            given, wanted = getattr(edge.from_node, "output_schema", None), getattr(edge.to_node, "input_schema", None)
            if given is not None and wanted is not None and given is not wanted:
                raise GraphValidationError(
                    f"graph {self.name!r}: {edge.to_node.name!r} has another input_schema than the output_schema of "
                    f"{edge.from_node.name!r}: give both the same"
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

    def _check_agent(self, agent: BaseAgent) -> None:
        where = f"graph {self.name!r}: agent {agent.name!r}"
        if not isinstance(agent, LlmAgent | CustomAgent | Graph):
            raise DefinitionError(
                f"{where} is a {type(agent).__name__}, which cannot be a node: its nodes are LlmAgents, CustomAgents and Graphs. "
                "Give its agents edges of their own"
            )
        if isinstance(agent, CustomAgent) and agent.sub_agents:
            raise DefinitionError(f"{where} has sub_agents, which a node of its kind cannot run: make them nodes")
        for below in agent.sub_agents if isinstance(agent, LlmAgent) else ():
            if not isinstance(below, LlmAgent):
                kind = type(below).__name__
                raise DefinitionError(f"{where} has the sub-agent {below.name!r}, a {kind}: it hands over to LlmAgents only")

    @cached_property
    def shape(self) -> Shape:
        """The graph without what its nodes do."""
        arrows = [Arrow(name_of_end(edge.from_node), name_of_end(edge.to_node), edge.routes) for edge in self.edges]
        return Shape(arrows, {name for name, each in self.nodes.items() if isinstance(each, JoinNode)})

    def told_shape(self) -> GraphShape:
        """Its edges and nodes by their names, as others than its own actor know it."""
        waits = (name for name, each in self.nodes.items() if isinstance(each, FunctionNode) and each.wait_for_output)
        return GraphShape(arrows=self.shape.arrows, joins=tuple(self.shape.joins), patient=tuple(waits))

    @cached_property
    def agents(self) -> Mapping[str, AgentName]:
        """The agents that may run in it, by name."""
        return {each.name: _named(each) for each in self.sub_agents}

    @cached_property
    def nodes(self) -> Mapping[str, Any]:
        """The nodes by name."""
        return {each.name: each for each in _distinct(self.edges)}

    def alone(self) -> BaseAgent:
        """The same definition with its agents by name only, as it is sent to the graph's actor."""
        names = self.agents

        def end(node: object) -> object:
            if isinstance(node, ParallelWorker):
                return ParallelWorker(end(node.node), max_parallel_workers=node.max_parallel_workers)
            if isinstance(node, TriedAgent):
                return names[node.name]._replace(retry_config=node.retry_config, timeout=node.timeout)
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


def _named(agent: BaseAgent) -> AgentName:
    input_class = agent.input_schema if isinstance(agent, LlmAgent) else None
    return AgentName(agent.name, _sees_conversation(agent), agent.kind == "graph", input_class=input_class)


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


def _distinct(edges: Sequence[Edge]) -> Iterator[Any]:
    """Each node once, in the order of the edges."""
    seen: set[int] = set()
    for edge in edges:
        for end in (edge.from_node, edge.to_node):
            if end != START and id(end) not in seen:
                seen.add(id(end))
                yield end
