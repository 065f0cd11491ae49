"""A simulated cluster whose deployment is given other trees: they are kept where no process is lost with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

from actors import BaseAgent, FunctionCall, LlmAgent, LlmRequest, LlmResponse, LongRunningFunctionTool, Part
from actors.definitions.spec import AgentSpec
from actors.interfaces.transport import Link
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.rules import MarkedVersion, Marks, known_still, marks_of, serves_any
from actors.layers.updates.versions import RunnerTree, SessionTrees, VersionRecord
from actors.messages.session import SessionKey
from runtime.engine.deployment import Deployment
from runtime.engine.local import LocalVersions
from tests.simulation.agents import WORK, StepModel, ask
from tests.simulation.cluster import SimDirectory
from tests.simulation.drivers import APP
from tests.simulation.faults import FaultPlan
from tests.simulation.scenarios import Node, Step
from tests.simulation.world import World

ASK = "ask"
"""The message of a turn in which the root asks the user."""


class NumberedModel(StepModel):
    """Says in each text, and in each call of the tool that works, of which tree it is."""

    def __init__(self, node: Node, number: int) -> None:
        super().__init__(node)
        self._number = number

    def _parts(self, request: LlmRequest) -> Sequence[Part]:
        return [self._numbered(part) for part in super()._parts(request)]

    def _numbered(self, part: Part) -> Part:
        call, tree = part.function_call, f"tree {self._number}"
        if call is None:
            return Part(text=tree)
        return Part(function_call=FunctionCall(name="work", args={**call.args, "key": tree})) if call.name == "work" else part


class RootModel:
    """Asks the user first, where the message wants that."""

    def __init__(self, number: int, works_s: float) -> None:
        steps = [Step(does="work", takes_s=works_s), Step(does="transfer", to="helper")]
        self._plain = NumberedModel(Node(kind="llm", name="root", steps=steps), number)
        self._asking = NumberedModel(Node(kind="llm", name="root", steps=[Step(does="ask"), *steps]), number)

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        asks = any(part.text == ASK for content in request.contents for part in content.parts)
        async for response in (self._asking if asks else self._plain).generate(request, stream=stream):
            yield response


def numbered_tree(number: int, works_s: float) -> BaseAgent:
    """A root that works and hands over to its helper, which works, too. Another agent is the same in all trees."""
    node = Node(kind="llm", name="helper", steps=[Step(does="work", takes_s=works_s)])
    helper = LlmAgent(name="helper", description="helps", model=NumberedModel(node, number), tools=[WORK])
    still = LlmAgent(name="still", description="is the same", model=NumberedModel(Node(kind="llm", name="still"), 0))
    model, tools = RootModel(number, works_s), [WORK, LongRunningFunctionTool(ask)]
    return LlmAgent(name="root", model=model, tools=tools, sub_agents=[helper, still])


class KeptRecords(LocalVersions):
    """Keeps trees and records, and notes when."""

    def __init__(self, first: AgentTree, plans: Any) -> None:
        super().__init__(APP, first, plans)
        self.history = [(0.0, self.newest)]

    async def keep_record(self, record: VersionRecord) -> None:
        """Keep a record. Raises UpdateConflictError."""
        await super().keep_record(record)
        self.history.append((asyncio.get_running_loop().time(), record))


class UpdatedWorld(World):
    """The world of a deployment that is updated."""

    def __init__(self, loop: Any, deployment: Deployment, plan: FaultPlan, calls: Any, seed: int) -> None:
        super().__init__(loop, deployment, plan, calls, seed)
        self.first = deployment.tree
        self.records = KeptRecords(deployment.tree, self.plans)
        self.trees_by_address: dict[str, AgentTree] = {}

    def session_options(self) -> dict[str, Any]:
        """The versions that are kept."""
        kept = [self.records.tree(version).version for version in self.records.newest.ids]
        return {"trees": SessionTrees(self.records.newest, kept, self.records)}

    def runner_options(self, directory: SimDirectory) -> dict[str, Any]:
        """The versions that are kept, and where their trees are."""
        trees = SimTrees(self, directory)
        return {"versions": self.records.newest, "trees": trees}

    def spec(self, agent: str) -> AgentSpec:
        """What the actor of an agent is given. `agent`: its address, with a mark where a later tree has brought it."""
        return self.trees_by_address.get(agent, self.first).spec(agent.partition("@")[0])


class SimTrees:
    """Implements `TreeSource` for one Runner."""

    def __init__(self, world: UpdatedWorld, directory: SimDirectory) -> None:
        self._world = world
        self._directory = directory
        self._known = [MarkedVersion(world.first.version, {})]

    async def tree(self, version: str) -> RunnerTree:
        """A version that is kept. Raises ClusterError."""
        tree = self._world.records.tree(version)
        leaders = {agent: group.leader for agent, group in tree.process_groups.items()}
        marks = marks_of(tree.version, self._known, leaders)
        self._known.append(MarkedVersion(tree.version, marks))
        self._world.trees_by_address |= {f"{agent}@{mark}": tree for agent, mark in marks.items()}
        return RunnerTree(tree.topology, MarkedDirectory(self._directory, marks), tree.plugins)

    def retain(self, used: Collection[str], loaded: Collection[str]) -> None:
        """End the actors of versions that are not in use."""
        versions = [known for known in self._known if known.version.id in used]
        for address, (link, _) in list(self._directory.links.items()):
            agent, _, mark = address.partition("@")
            if not serves_any(versions, agent, mark):
                self._directory.drop_link(address, link)
        self._known = known_still(self._known, loaded)


class MarkedDirectory:
    """Implements `AgentDirectory` for the agents of a later version."""

    def __init__(self, directory: SimDirectory, marks: Marks) -> None:
        self.obstacles: Mapping[str, tuple[str, str]] = {}
        self._directory = directory
        self._marks = marks

    async def link(self, agent: str, key: SessionKey, *, alone: bool = False) -> Link:
        """A link to an agent's actor."""
        return await self._directory.link(self._address(agent), key, alone=alone)

    def drop_link(self, agent: str, link: Link) -> None:
        """Drop an agent's actor."""
        self._directory.drop_link(self._address(agent), link)

    def _address(self, agent: str) -> str:
        mark = self._marks.get(agent, "")
        return f"{agent}@{mark}" if mark else agent
