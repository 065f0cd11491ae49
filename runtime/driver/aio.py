"""The waiting methods of a Runtime for callers on an event loop: `rt.aio`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from actors.errors.calls import explains_all_wrong_calls
from actors.layers.flows.definitions import Task
from actors.layers.updates.versions import UpdateReport
from actors.messages.topology import Topology
from runtime.driver.ending import Drained
from runtime.driver.engine_client import EngineClient
from runtime.driver.questions import TaskRun
from runtime.driver.scripts.questions import AnswerRun
from runtime.driver.scripts.results import MapResult
from runtime.driver.scripts.turn_map import Inputs, TurnMap
from runtime.driver.services.agents import DeployedTree
from runtime.driver.services.services import Services, TurnCalls
from runtime.driver.upgrade_report import UpgradeReport
from runtime.driver.waits import Awaited


class Methods(NamedTuple):
    """Methods of a Runtime that its `aio` uses. All that block are called in a thread."""

    start_task: Callable[..., TaskRun]
    start_asking: Callable[..., AnswerRun]
    map: Callable[..., TurnMap]
    shutdown: Callable[[], None]
    drain: Callable[..., Awaitable[Drained]]
    update: Callable[..., UpdateReport]
    rollback: Callable[[], UpdateReport]
    upgrade: Callable[..., UpgradeReport]


@explains_all_wrong_calls
class AsyncServices(Services[Awaited]):
    """The waiting methods of a Runtime, for callers on an event loop: `rt.aio`.

    `rt.run`, `rt.run_flow` and `rt.attach` do not wait, so they have no counterpart here; only the first `run_flow` of a program
    that has joined asks the deployment for its tree.
    """

    def __init__(self, client: EngineClient, tree: DeployedTree, calls: TurnCalls, methods: Methods) -> None:
        super().__init__(client, Awaited, tree, calls)
        self._methods = methods

    async def run_task(self, objective: str | Task, **options: Any) -> Any:
        """Have one task done and wait for its result: see Runtime.run_task, which takes the same."""
        run = await asyncio.to_thread(self._methods.start_task, objective, **options)
        return await run.result_async()

    async def ask(self, *asked: Any, **options: Any) -> Any:
        """Ask an agent and wait for its answer, as an object: see Runtime.ask, which takes the same."""
        return await self._methods.start_asking(*asked, **options).result_async()

    def map(self, inputs: Inputs, **options: Any) -> AsyncIterator[MapResult]:
        """Run a turn for each of many inputs: see Runtime.map, which takes the same."""
        return aiter(self._methods.map(inputs, **options))

    async def topology(self) -> Topology:
        """The shape of the tree, as far as this program knows it: a program that has joined asks for it once."""
        known = self._tree.definitions
        return known.topology if known is not None else await asyncio.to_thread(self._tree.topology)

    async def update(self, root_agent: object, **options: Any) -> UpdateReport:
        """Give the deployment another tree while it runs: see Runtime.update, which takes the same."""
        return await asyncio.to_thread(self._methods.update, root_agent, **options)

    async def rollback(self) -> UpdateReport:
        """Go back to the tree before the last update: see Runtime.rollback."""
        return await asyncio.to_thread(self._methods.rollback)

    async def upgrade(self, successor: object, **options: Any) -> UpgradeReport:
        """Have a deployment of this program's release take this one's place: see Runtime.upgrade, which takes the same."""
        return await asyncio.to_thread(self._methods.upgrade, successor, **options)

    async def shutdown(self) -> None:
        """Stop the deployment for good: see Runtime.shutdown."""
        await asyncio.to_thread(self._methods.shutdown)

    async def drain(self, within_s: float | None = None) -> Drained:
        """Stop the deployment for good as soon as its turns have ended: see Runtime.drain."""
        return await self._methods.drain(within_s)
