"""The spare processes of a Runner that stands by: they have loaded the code that turns will need when they go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from actors.errors import ClusterError
from runtime.cluster.processes.directory import RayDirectory

logger = logging.getLogger(__name__)

LOOK_FOR_UPDATE_S = 5.0
"""How often it is looked whether the deployment was updated."""


class WarmSpares:
    """Has spare processes load the code of the first version, as long as new turns get that one.

    To import a user's modules takes longer than all else that a turn waits for when its Runner is lost. Agents of a later version
    could not live in a process that has done so.

    Args:
        has_later: says whether new turns get a later version. Raises ClusterError.
    """

    def __init__(self, directory: RayDirectory, has_later: Callable[[], Awaitable[bool]]) -> None:
        self._directory = directory
        self._has_later = has_later
        self._watching: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Have the spares that are ready load the code, and replace them as soon as there is a later version."""
        self.end()
        if not await self._was_updated():
            await self._directory.load_spares()
            self._watching = asyncio.create_task(self._replace_after_update())

    def end(self) -> None:
        """Look for updates no more: a Runner that stands by no longer gets them by message."""
        if self._watching is not None:
            self._watching.cancel()

    async def _replace_after_update(self) -> None:
        was_updated = False
        while not was_updated:
            await asyncio.sleep(LOOK_FOR_UPDATE_S)
            was_updated = await self._was_updated()
        self._directory.replace_loaded_spares()

    async def _was_updated(self) -> bool:
        try:
            return await self._has_later()
        except ClusterError as error:
            logger.debug("whether the deployment was updated cannot be read: %s", error)
            return True
