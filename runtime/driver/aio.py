"""The waiting methods of a Runtime for callers on an event loop: `rt.aio`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from actors.definitions.flows import Task
from actors.errors.calls import explains_all_wrong_calls
from actors.interfaces.deployment_events import DeploymentEvent
from actors.messages.operating.upgrades import UpgradeReport
from actors.messages.operating.usage import UsageBy, UsageReport
from actors.messages.operating.versions import UpdateReport, VersionInfo
from actors.messages.topology import Topology
from actors.messages.turn_info import TurnInfo
from runtime.driver.ending import Drained
from runtime.driver.engine_client import EngineClient
from runtime.driver.questions import TaskRun
from runtime.driver.scripts.results import MapResult
from runtime.driver.scripts.turn_map import Inputs, TurnMap
from runtime.driver.services.agents import AgentInfo, DeployedTree
from runtime.driver.services.artifacts import ArtifactsService, AsyncArtifactsService
from runtime.driver.services.batches import AsyncBatchesService
from runtime.driver.services.limits import AsyncLimitsService
from runtime.driver.services.memory import AsyncMemoryService
from runtime.driver.services.schedules import AsyncSchedulesService
from runtime.driver.services.sessions import AsyncSessionsService, Follow
from runtime.driver.services.usage import read_usage, read_usages
from runtime.driver.services.users import AsyncUsersService
from runtime.driver.statistics import RuntimeStatistics, read_statistics
from runtime.driver.turns.service import AsyncTurnsService
from runtime.driver.turns.turn import Turn
from runtime.driver.updates.methods import version_infos


class UpdateCalls(NamedTuple):
    """Methods of a Runtime that update its deployment, each of which is called in a thread."""

    update: Callable[..., UpdateReport]
    rollback: Callable[[], UpdateReport]
    upgrade: Callable[..., UpgradeReport]


class Methods(NamedTuple):
    """Methods of a Runtime that its `aio` uses. `start_task` and `shutdown` are called in a thread."""

    start_task: Callable[..., TaskRun]
    map: Callable[..., TurnMap]
    ask: Callable[..., Awaitable[Any]]
    shutdown: Callable[[], None]
    drain: Callable[..., Awaitable[Drained]]
    run: Callable[..., Turn]
    updates: UpdateCalls


@explains_all_wrong_calls
class AsyncServices:
    """The waiting methods of a Runtime, for callers on an event loop: `rt.aio`.

    `rt.run`, `rt.run_flow` and `rt.attach` do not wait, so they have no counterpart here; only the first `run_flow` of a program
    that has joined asks the deployment for its tree.

    Args:
        client: of the engine.
        artifacts: the sync service.
        follow: follows a session.
        tree: the deployed agents.
        methods: of the Runtime.

    Attributes:
        sessions, turns, artifacts, memory, users, schedules, batches, limits: the services.
    """

    def __init__(
        self,
        client: EngineClient,
        artifacts: ArtifactsService,
        follow: Follow,
        tree: DeployedTree,
        methods: Methods,
    ) -> None:
        self._client = client
        self._tree = tree
        self._methods = methods
        self.sessions = AsyncSessionsService(client, artifacts, follow)
        self.turns = AsyncTurnsService(client, tree.topology)
        self.artifacts = AsyncArtifactsService(artifacts)
        self.memory = AsyncMemoryService(client)
        self.users = AsyncUsersService(client, artifacts)
        self.schedules = AsyncSchedulesService(client, methods.run)
        self.batches = AsyncBatchesService(client)
        self.limits = AsyncLimitsService(client)

    async def run_task(self, objective: str | Task, **options: Any) -> Any:
        """Have one task done and wait for its result: see Runtime.run_task, which takes the same."""
        run = await asyncio.to_thread(self._methods.start_task, objective, **options)
        return await run.result_async()

    async def ask(self, *asked: Any, **options: Any) -> Any:
        """Ask an agent and wait for its answer, as an object: see Runtime.ask, which takes the same."""
        return await self._methods.ask(*asked, **options)

    def map(self, inputs: Inputs, **options: Any) -> AsyncIterator[MapResult]:
        """Run a turn for each of many inputs: see Runtime.map, which takes the same."""
        return aiter(self._methods.map(inputs, **options))

    async def tree(self, under: str | None = None, *, depth: int | None = None, limit: int = 1_000, offset: int = 0) -> AgentInfo:
        """The agents of the deployment: see Runtime.tree."""
        return await asyncio.to_thread(self._tree.outline, under, depth, limit, offset)

    async def topology(self) -> Topology:
        """The shape of the tree, as far as this program knows it: a program that has joined asks for it once."""
        known = self._tree.definitions
        return known.topology if known is not None else await asyncio.to_thread(self._tree.topology)

    async def find_agents(
        self,
        text: str = "",
        *,
        kind: str | None = None,
        model: str | None = None,
        tool: str | None = None,
        under: str | None = None,
        limit: int = 100,
    ) -> list[AgentInfo]:
        """Agents of the deployment that fit: see Runtime.find_agents."""
        return await asyncio.to_thread(self._tree.search, text, under, limit, kind=kind, model=model, tool=tool)

    async def deployment_events(self) -> Sequence[DeploymentEvent]:
        """Read what has happened to the deployment: see Runtime.deployment_events."""
        return await self._client.run_async(self._client.engine.deployment_events())

    async def usage(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        invocation_id: str | None = None,
        *,
        since: float | datetime | None = None,
        by: UsageBy | None = None,
    ) -> UsageReport:
        """Usage of turns, added up: see Runtime.usage."""
        return await self._client.run_async(read_usage(self._client, user_id, session_id, invocation_id, since, by))

    async def usages(self, turns: Iterable[TurnInfo]) -> Sequence[UsageReport]:
        """Usage of each of these turns: see Runtime.usages."""
        return await self._client.run_async(read_usages(self._client, turns))

    async def statistics(self) -> RuntimeStatistics:
        """The living actors of the deployment and their counts."""
        return await self._client.run_async(read_statistics(self._client.engine))

    async def update(self, root_agent: object, **options: Any) -> UpdateReport:
        """Give the deployment another tree while it runs: see Runtime.update, which takes the same."""
        return await asyncio.to_thread(self._methods.updates.update, root_agent, **options)

    async def rollback(self) -> UpdateReport:
        """Go back to the tree before the last update: see Runtime.rollback."""
        return await asyncio.to_thread(self._methods.updates.rollback)

    async def upgrade(self, successor: object, **options: Any) -> UpgradeReport:
        """Have a deployment of this program's release take this one's place: see Runtime.upgrade, which takes the same."""
        return await asyncio.to_thread(self._methods.updates.upgrade, successor, **options)

    async def versions(self) -> list[VersionInfo]:
        """The versions of its tree that the deployment keeps: see Runtime.versions."""
        return version_infos(await self._client.run_async(self._client.engine.trees.record()))

    async def shutdown(self) -> None:
        """Stop the deployment for good: see Runtime.shutdown."""
        await asyncio.to_thread(self._methods.shutdown)

    async def drain(self, within_s: float | None = None) -> Drained:
        """Stop the deployment for good as soon as its turns have ended: see Runtime.drain."""
        return await self._methods.drain(within_s)
