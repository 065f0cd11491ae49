"""The waiting methods of a Runtime for callers on an event loop: `rt.aio`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from actors.definitions.flows import Task
from runtime.driver.engine_client import EngineClient
from runtime.driver.services.artifacts import ArtifactsService, AsyncArtifactsService
from runtime.driver.services.memory import AsyncMemoryService
from runtime.driver.services.sessions import AsyncSessionsService
from runtime.driver.statistics import RuntimeStatistics, read_statistics


class AsyncServices:
    """The waiting methods of a Runtime, for callers on an event loop: `rt.aio`.

    `rt.run`, `rt.run_flow` and `rt.attach` never wait, so they have no counterpart here.

    Args:
        client: of the engine.
        artifacts: the sync service.
        run_task, shutdown: the Runtime's methods, which are run in a thread.

    Attributes:
        sessions, artifacts, memory: the services.
    """

    def __init__(
        self, client: EngineClient, artifacts: ArtifactsService, run_task: Callable[..., Any], shutdown: Callable[[], None]
    ) -> None:
        self._client = client
        self._run_task = run_task
        self._shutdown = shutdown
        self.sessions = AsyncSessionsService(client)
        self.artifacts = AsyncArtifactsService(artifacts)
        self.memory = AsyncMemoryService(client)

    async def run_task(self, objective: str | Task, **options: Any) -> Any:
        """Have one task done and wait for its result: see Runtime.run_task, which takes the same."""
        return await asyncio.to_thread(self._run_task, objective, **options)

    async def statistics(self) -> RuntimeStatistics:
        """The living actors of the deployment and their counts."""
        return await self._client.run_async(read_statistics(self._client.engine))

    async def shutdown(self) -> None:
        """Stop the deployment for good: see Runtime.shutdown."""
        await asyncio.to_thread(self._shutdown)
