"""The tree that a program gives a deployment, checked, and the tree of a deployment that it has started or joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec

from actors.definitions.agents import BaseAgent, Plugin
from actors.errors import DefinitionError
from actors.layers.compaction.definitions import EventsCompactionConfig
from actors.layers.flows.definitions import Flow, FlowAgent, FlowPlan, Task
from actors.layers.flows.definitions.agent import check_defined_workers
from actors.layers.recording.messages import Recording
from actors.layers.trees.tree import Adapted, AgentTree
from actors.messages.protocol.sessions import GetTopology
from actors.messages.topology import Topology
from actors.refs import SessionRef
from runtime.driver.engine_client import EngineClient
from runtime.driver.services.outline import AgentInfo, check_workers, outline, search
from runtime.engine.deployment import check_models
from runtime.engine.process.collector import existing_left_out
from runtime.settings import Settings


class DeployedTree:
    """The tree of a deployment. A program that has joined asks for it once, when it is first needed.

    Args:
        tree: the definitions; None in a program that has joined the deployment.
    """

    def __init__(self, client: EngineClient, tree: AgentTree | None) -> None:
        self._client = client
        self._tree = tree
        self._given = [] if tree is None else [tree]
        self._asked: tuple[SessionRef, Topology, str] | None = None

    @property
    def definitions(self) -> AgentTree | None:
        """The definitions of the tree; None where they are not known."""
        return self._tree

    def follow(self, version: str, tree: AgentTree | None) -> None:
        """Go by another version from now on.

        Args:
            tree: its definitions; None: those that this program has given the deployment before, if it has.
        """
        if tree is not None and tree not in self._given:
            self._given.append(tree)
        self._tree = next((given for given in self._given if given.version.id == version), None)
        self._asked = None

    def refresh(self) -> None:
        """Learn whether another program has given the deployment another tree. Raises RuntimeClosedError, ActorLostError."""
        known = self._tree.version.id if self._tree is not None else self._asked[2] if self._asked is not None else ""
        session = self._client.session
        found = self._client.run(session.ask(GetTopology(known=known)))
        if found.topology is not None:
            self.follow(found.version, None)
            self._asked = (session, found.topology, found.version)

    def topology(self) -> Topology:
        """The parent map. Raises RuntimeClosedError, ActorLostError."""
        return self._known()[0]

    def _known(self) -> tuple[Topology, str]:
        if (tree := self._tree) is not None:
            return tree.topology, tree.version.id
        # Another deployment may have been joined since, with another tree.
        if (asked := self._asked) is None or asked[0] is not self._client.session:
            self._asked = asked = self._client.run(self._ask())
        return asked[1], asked[2]

    async def _ask(self) -> tuple[SessionRef, Topology, str]:
        session = self._client.session
        found = await session.ask(GetTopology())
        # No version is called "".
        assert found.topology is not None
        return session, found.topology, found.version

    def _check_flow(self, flow: Flow) -> None:
        """Check that a flow can be run with the agents of the tree.

        Raises:
            DefinitionError: one of its agents is not in the tree, or is another one than that of the same name, or cannot work on
                tasks. A program that has joined has no definitions to compare: there the name alone counts.
        """
        agents, asking = flow.plan.rules.agents, flow.plan.asking_agents
        if self._tree is None:
            check_workers(self.topology(), flow.name, agents, asking)
            return
        check_defined_workers(self._tree.agents, flow.name, agents, asking)
        for name, agent in flow.members.items():
            if agent is not None and self._tree.find(name) != agent:
                raise DefinitionError(
                    f"flow {flow.name!r}: agent {name!r} is another than the one of that name in the tree: "
                    "use that one or its name, or make the Runtime with the flow"
                )

    def output_schema(self, name: str) -> object:
        """The `output_schema` of an agent; None when it has none, and in a program that has joined."""
        return getattr(self._tree.find(name), "output_schema", None) if self._tree is not None else None

    def is_same(self, agent: BaseAgent | str | None) -> bool:
        """True if the tree has exactly this definition under its name, and for a name."""
        return not isinstance(agent, BaseAgent) or self._tree is None or self._tree.find(agent.name) == agent

    def plan_of(self, flow: Flow, tasks: Sequence[Task | str] | None = None) -> FlowPlan:
        """A flow's plan, if the agents of the tree can carry it out.

        Args:
            tasks: the tasks to complete, with all that they depend on; None for all.

        Raises:
            DefinitionError: `flow` is no Flow, has no tasks, lacks one of `tasks`, or has an agent that is not in the tree.
        """
        if not isinstance(flow, Flow):
            raise DefinitionError(f"run_flow needs a Flow, not {type(flow).__name__}")
        plan = flow.plan
        if not plan.nodes:
            raise DefinitionError(f"flow {flow.name!r} has no tasks")
        self._check_flow(flow)
        if tasks is not None:
            plan = replace(plan, goal=tuple(dict.fromkeys(flow.name_of(task) for task in tasks)))
        return plan

    def one_task_flow(self, objective: str | Task, agents: Sequence[BaseAgent | str] | None, options: Mapping[str, Any]) -> Flow:
        """A flow with a single task.

        Args:
            agents: the agents that may work on it; None for the root, or for all agents of the flow that is the root.
            options: fields of Task.

        Raises:
            DefinitionError: the task is defined wrongly, or no agent can work on it.
        """
        if isinstance(objective, Task):
            if options:
                raise DefinitionError(f"run_task was given a Task: give it {', '.join(sorted(options))} when it is made")
            task = objective
        else:
            task = Task(objective, **options)
        if agents is None and not task.agents:
            agents = self._default_workers()
        return Flow([task], name="task", agents=agents or ())

    def _default_workers(self) -> Sequence[str]:
        """The agents that do a task which names none: the root, or all agents of the flow that is the root.

        Raises:
            DefinitionError: the root cannot work on tasks.
        """
        root = self.topology().root
        workers = (root.name,) if root.is_llm else root.workers
        if not workers:
            raise DefinitionError(f"run_task needs agents: the root {root.name!r} is none that can work on tasks")
        return workers

    def outline(self, under: str | None, depth: int | None, limit: int, offset: int) -> AgentInfo:
        """See Runtime.tree."""
        topology, version = self._newest()
        *_, found = outline(topology, under if under is not None else topology.root.name, depth, limit, offset)
        return msgspec.structs.replace(found, version=version)

    def _newest(self) -> tuple[Topology, str]:
        """The parent map as it is now, and its version."""
        if self._client.is_open:
            self.refresh()
        return self._known()

    def search(self, text: str, under: str | None, limit: int, **wanted: str | None) -> list[AgentInfo]:
        """See Runtime.find_agents."""
        return search(self._newest()[0], text, under, limit, **wanted)


def checked_tree(
    root_agent: BaseAgent | Flow | object | None,
    app_name: str,
    plugins: Sequence[Plugin],
    settings: Settings,
    mask_requests: Callable[[str], str] | None,
    *,
    islands: bool = False,
    compaction: EventsCompactionConfig | None = None,
) -> AgentTree:
    """The tree below a root agent, a flow, an agent or App of google-adk, or what `from_adk` has made of one.

    Raises:
        DefinitionError: something is missing or wrong; AgentTreeError and UnknownModelError are kinds of it.
    """
    if _is_adk(root_agent):
        from runtime.integrations.adk.convert import from_adk

        root_agent, islands = from_adk(root_agent, app_name=app_name, islands=islands), False
    is_resumable = False
    if isinstance(root_agent, Adapted):
        adapted = root_agent
        root_agent, plugins = adapted.root_agent, (*adapted.plugins, *plugins)
        compaction = compaction or adapted.events_compaction_config
        is_resumable = adapted.is_resumable
    if islands:
        raise DefinitionError("islands goes with agents of google-adk only: leave it out")
    root = FlowAgent(root_agent) if isinstance(root_agent, Flow) else cast("BaseAgent | None", root_agent)
    recording = Recording(settings.record_requests, mask_requests)
    with existing_left_out():
        tree = AgentTree(root, plugins, settings.limits, recording, compaction, is_resumable=is_resumable)
        check_models(tree)
    return tree


def _is_adk(root: object) -> bool:
    """True for an object of google-adk, and for one whose class is a subclass of one there. Imports nothing."""
    return not isinstance(root, BaseAgent) and any(base.__module__.startswith("google.adk.") for base in type(root).__mro__)
