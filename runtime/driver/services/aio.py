"""`rt.aio`: the services as coroutines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from actors.definitions.flows import Task
from runtime.driver.services.memory import AsyncMemoryService

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime
    from runtime.driver.statistics import RuntimeStatistics
from runtime.driver.services.artifacts import AsyncArtifactsService
from runtime.driver.services.sessions import AsyncSessionsService


class AsyncServices:
    """What of a Runtime waits, for callers on an event loop: `rt.aio`.

    `rt.run`, `rt.run_flow` and `rt.attach` never wait and are for both.

    Attributes:
        sessions, artifacts, memory: the services.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.sessions = AsyncSessionsService(runtime)
        self.artifacts = AsyncArtifactsService(runtime.artifacts)
        self.memory = AsyncMemoryService(runtime)

    async def run_task(self, objective: str | Task, **options: Any) -> Any:
        """Have one task done and wait for its result: see Runtime.run_task, which takes the same."""
        return await asyncio.to_thread(self._runtime.run_task, objective, **options)

    async def statistics(self) -> RuntimeStatistics:
        """What lives, and what it has done."""
        return await self._runtime.call_async(self._runtime.read_statistics())

    async def shutdown(self) -> None:
        """Stop the deployment for good: see Runtime.shutdown."""
        await asyncio.to_thread(self._runtime.shutdown)
