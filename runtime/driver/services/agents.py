"""The deployed tree of agents, as a program sees it that started or joined the deployment."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.definitions.agents import BaseAgent
from actors.errors import DefinitionError
from actors.layers.flows.definitions import Flow
from actors.layers.flows.definitions.agent import check_defined_workers
from actors.layers.trees.tree import AgentTree
from actors.messages.protocol.sessions import GetTopology
from actors.messages.topology import Topology
from actors.refs import SessionRef
from runtime.driver.engine_client import EngineClient
from runtime.driver.services.outline import AgentInfo, check_workers, outline, search


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

    def check_flow(self, flow: Flow) -> None:
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

    def default_workers(self) -> Sequence[str]:
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
