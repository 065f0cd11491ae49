"""The Ray actor that is the process of a Runner, or stands by for it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable
from itertools import count
from typing import cast

import ray
from ray.exceptions import RayError

from actors.actor import Actor
from actors.interfaces.deployment_events import tell_event
from actors.messages.codec import encode
from actors.messages.protocol.base import error_in
from actors.messages.protocol.turns import RecoverTurns
from runtime.cluster.cluster_watch import ClusterWatch
from runtime.cluster.control_service_watch import ControlServiceWatch
from runtime.cluster.core.core_host import RECOVERY, TURNS_FIRST_S, CoreHost
from runtime.cluster.core.warm_spares import WarmSpares
from runtime.cluster.handle import Handle
from runtime.cluster.packing.chunks import from_chunks
from runtime.cluster.transport.plans import KeptPlans
from runtime.cluster.transport.ray_actors import current_actor, is_restarted
from runtime.engine.process.tool_threads import ToolThreads
from runtime.transport.options import DirectOptions

logger = logging.getLogger(__name__)

THREADS = 64
"""Blocking calls that may run in a Runner at the same time: hooks of plugins, artifact stores, Ray's own."""

READY = 1
"""Processes for agents that a process which stands by keeps ready: the first turn that goes on needs one."""

WRITTEN_AT_ONCE = 32
"""What many turns ask for in one pass of the event loop is written in parts of so many requests.

Turns that begin together would otherwise stay together: one process works on all of them, and the others wait for it. Once the
Runner has parted them they mostly stay apart. Smaller parts, or more that part them, cost more CPU than they gain.
"""


class RunnerHost(CoreHost):
    """The process of a Runner. Agents fetch the definitions of flows here.

    When Ray has restarted it, it tells its Runner to recover the turns that were running. Where the Runner has a standby, that
    does so at once, and the process that was started again stands by from then on.

    Args:
        chunks: of what builds the actor, of the pickled definitions of the tree's flows by name, of the Session actors as
            PlanPeers, of its WireOptions and its LogOptions, and of its StandbyPlan or None.
    """

    _direct = DirectOptions(requests_at_once=WRITTEN_AT_ONCE)

    def __init__(self, namespace: str, *chunks: bytes) -> None:
        build, plans, peers, wires, logs, plan = from_chunks(chunks)

        self._nodes = ClusterWatch()
        self._control_service: ControlServiceWatch | None = None

        def build_runner() -> Actor:
            built = build(self._wires, self._nodes, self._term, plan)
            self._runner, self._directory, self._mcp_servers, self._trees, self._departures = built
            self._warm_spares = WarmSpares(self._directory, self._trees.has_later)
            return cast(Actor, self._runner)

        super().__init__(build_runner, KeptPlans(plans, peers), wires, logs, "runner", plan, namespace)
        if plan is None and is_restarted():
            self.tell_replaced()
            threading.Thread(target=self._recover, args=(current_actor(namespace),), daemon=True).start()

    async def retire(self) -> list[int]:
        """Become the Runner no more, since the deployment ends. Returns the ids of the processes that stand by here."""
        pids = await super().retire()
        self._warm_spares.end()
        if pids:
            pids += self._directory.spare_pids()
            await self._directory.close()
        return pids

    async def start_spares(self) -> None:
        """Begin to start spare processes for agents."""
        # The first message to a Runner that was started or restarted. Plugins and artifact stores are foreign code, too.
        self._begin()
        self._directory.start_spares()
        self._see_nodes_end()

    def _begin(self) -> None:
        asyncio.get_running_loop().set_default_executor(ToolThreads(THREADS))
        self._control_service = self._control_service or ControlServiceWatch(str(ray.get_runtime_context().gcs_address))

    async def replace_process(self, name: str, why: str) -> None:
        """Replace a process of agents at its own request."""
        self._directory.replace(name, why)

    async def note_end(self, name: str, why: str) -> None:
        """Tell why a process of agents ends itself."""
        tell_event("process lost", "%s ends itself: %s", name, why)

    async def mcp_server(self, raw: bytes) -> str:
        """Have the actor of an MCP server live. Returns its name. Raises DefinitionError, ClusterError."""
        name: str = await self._mcp_servers.start(raw)
        return name

    async def plan(self, name: str) -> bytes | None:
        """The pickled definition of a flow, or None; after a restart it may have to be fetched from a Session actor's process."""
        later: bytes | None = self._trees.plan(name)
        return later if later is not None else await self.plans.find(name)

    async def _stand_by(self) -> None:
        self._begin()
        await super()._stand_by()

    async def _take_place(self) -> None:
        self._warm_spares.end()
        self._is_leading.set()
        recovering = asyncio.create_task(self._recover_here())
        try:
            await asyncio.wait((recovering,), timeout=TURNS_FIRST_S)
            self._see_nodes_end()
            await _surely(self._use_versions(self._trees.newest_record()))
            await asyncio.sleep(TURNS_FIRST_S)
            self._directory.start_spares()
            await _surely(asyncio.to_thread(self.plans.copy_from_peers))
            await recovering
        finally:
            recovering.cancel()

    def _see_nodes_end(self) -> None:
        if self._departures is not None and self._is_leading.is_set():
            self._departures.begin()

    async def _prepare(self) -> list[int]:
        self._directory.start_spares(READY)
        await self._runner.prepare()
        await self._directory.spares_started()
        await self._warm_spares.load()
        return [os.getpid(), *self._directory.spare_pids()]

    async def _recover_here(self) -> None:
        raw = encode(RecoverTurns(term=self._term))
        for attempt in count(1):
            if error_in(await self._actor.receive(raw)) is None:
                break
            # The store is away, or a Session actor. A turn that no driver follows would wait for ever.
            await asyncio.sleep(RECOVERY.after_attempts(attempt))

    def _recover(self, actor: Handle) -> None:
        # The agents of the turns that go on need processes, which take longer to start than it takes to find the turns.
        actor.start_spares.remote()
        # Sent until there is a reply: a message that an actor sends to itself while it starts may get lost.
        raw = encode(RecoverTurns())
        asked: list[ray.ObjectRef[bytes]] = []
        for attempt in count(1):
            asked.append(actor.receive.remote(raw))
            # To any of them: each may take longer than this.
            pause_s = RECOVERY.after_attempts(attempt)
            replies, asked = ray.wait(asked, timeout=pause_s)
            if replies and _is_answered(replies[0]):
                break
            if replies:
                # It was lost, or the store is away, or a Session actor. A turn that no driver follows would wait for ever.
                time.sleep(pause_s)
        actor.start_spares.remote()
        self.plans.copy_from_peers()


async def _surely(reading: Awaitable[None]) -> None:
    try:
        await reading
    except Exception:
        # Flows and versions are looked for again when a turn needs one that is not here.
        logger.warning("the Runner that takes the place of a lost one could not read all that is kept", exc_info=True)


def _is_answered(reply: ray.ObjectRef[bytes]) -> bool:
    try:
        return error_in(ray.get(reply)) is None
    except RayError:
        return False
