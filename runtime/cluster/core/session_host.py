"""The Ray actor that is the process of a Session actor, or stands by for it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Any

from actors.actor import Actor
from actors.errors import RaygroveError
from runtime.cluster.core.core_host import TURNS_FIRST_S, CoreHost
from runtime.cluster.packing.chunks import from_chunks
from runtime.cluster.transport.plans import KeptPlans
from runtime.cluster.transport.ray_actors import is_restarted

logger = logging.getLogger(__name__)


class SessionHost(CoreHost):
    """The process of a Session actor. It keeps definitions of flows for the case that a Runner is lost.

    Args:
        chunks: of what builds the actor, of the DeploymentInfo for drivers that join, of the Runners as PlanPeers, of its
            StandbyPlan or None, and of what its node alone may have.
    """

    def __init__(self, namespace: str, *chunks: bytes) -> None:
        build, self._deployment_info, peers, plan, self._bound_to = from_chunks(chunks)
        info = self._deployment_info

        def build_session() -> Actor:
            actor: Actor
            actor, self._rehearse, self._kept = build(self._wires, self._stands_by_first)
            return actor

        super().__init__(build_session, KeptPlans({}, peers), info.wires, info.logs, "session", plan, namespace)
        if plan is None and is_restarted():
            self.tell_replaced()
            threading.Thread(target=self.plans.copy_from_peers, daemon=True).start()

    async def deployment_info(self) -> Any:
        """The DeploymentInfo for a driver that joins."""
        return self._deployment_info

    async def _prepare(self) -> list[int]:
        try:
            # What is done once takes less time when others wait for it.
            await asyncio.gather(asyncio.to_thread(self._rehearse), self._use_versions(asyncio.to_thread(self._kept.record)))
        except RaygroveError as error:
            # The place can be taken all the same, a little later.
            logger.warning("what the standby of %s will need cannot be opened: %s", self._name, error)
        return [os.getpid()]

    async def _take_place(self) -> None:
        try:
            await self._use_versions(asyncio.to_thread(self._kept.record))
        except RaygroveError as error:
            logger.warning("the process that takes the place of %s cannot read the versions of the tree: %s", self._name, error)
        self._is_leading.set()
        await asyncio.sleep(TURNS_FIRST_S)
        await asyncio.to_thread(self.plans.copy_from_peers)
