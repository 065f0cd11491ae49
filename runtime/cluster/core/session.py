"""A Session actor in its own process, which imports nothing of Runners and agents: how it is built, and its host."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import ray

from actors.actor import Actor
from actors.errors import RaygroveError
from actors.interfaces.stores import MemoryStore
from actors.layers.services import session_actor
from actors.layers.stores.parts import SessionStore
from actors.layers.updates.versions import SessionTrees, TreeVersion
from actors.refs import SessionRef
from actors.session.environment import SessionEnvironment
from runtime.cluster.core.actors import actor_name, session_standbys
from runtime.cluster.core.core_host import TURNS_FIRST_S, CoreHost
from runtime.cluster.host import end_process
from runtime.cluster.packing.pickling import from_chunks
from runtime.cluster.packing.versions import KeptVersions
from runtime.cluster.ray_metrics import RayMetrics
from runtime.cluster.transport.clients import DeploymentInfo
from runtime.cluster.transport.pair import Pair
from runtime.cluster.transport.plans import KeptPlans
from runtime.cluster.transport.ray_actors import get_actor, is_restarted
from runtime.cluster.transport.wires import Wires
from runtime.engine.placing import SessionActorPlace, session_names
from runtime.engine.process.node_caches import share_node
from runtime.engine.store_urls import open_memory_store, open_session_store
from runtime.observability.figures import of_counts
from runtime.settings import Settings
from runtime.stores.owner import ProcessPlace, StoreOwner, this_process

logger = logging.getLogger(__name__)


LONGEST_END_S = 30.0
"""How long what is to be written after the actor has stopped waits for the end of the process, before it is refused."""


@dataclass(frozen=True)
class SessionSpec:
    """What a Session actor is built of.

    Attributes:
        session_store, memory_store: URLs or stores.
        version: of the tree with which the deployment is started.
        deployment: an id, which tells this deployment from any other that uses the session store.
        driver: the program that ends the deployment with itself; None for a detached one.
        program: the name of the program that starts it.
    """

    app_name: str
    place: SessionActorPlace
    session_store: str | SessionStore
    memory_store: str | MemoryStore | None
    version: TreeVersion
    kept: KeptVersions
    settings: Settings
    deployment: str
    driver: ProcessPlace | None
    program: str

    @property
    def name(self) -> str:
        """The actor's name."""
        return actor_name(self.app_name, self.place.name)

    def rehearse(self) -> None:
        """Open the store as one that only looks into it, and close it again: the next time takes less. Raises StoreError."""
        if isinstance(self.session_store, str):
            store = open_session_store(self.session_store, self.settings)
            store.open()
            store.close()


def build_session(spec: SessionSpec, wires: Wires, stands_by: bool = False) -> tuple[Actor, Callable[[], None], KeptVersions]:
    """Build a Session actor.

    Args:
        stands_by: it stands by at first.

    Returns:
        The actor, what a process that stands by does beforehand, and where versions of the tree are kept.
    """
    address = str(ray.get_runtime_context().gcs_address)
    owner = StoreOwner(spec.app_name, spec.deployment, this_process(), spec.driver, address, spec.program)
    record = spec.kept.record()
    environment = SessionEnvironment(
        open_session_store(spec.session_store, spec.settings, owner),
        spec.version.topology,
        memory=open_memory_store(spec.memory_store, spec.settings),
        store_timeout_s=spec.settings.store_timeout_s,
        keep_calls_s=spec.settings.keep_requests_s,
        limits=spec.settings.limits,
        writer=f"{spec.name} {spec.deployment}",
        on_replaced=partial(end_process, "this Session actor was replaced, so its process ends"),
        on_late_write=_until_killed,
        prices=spec.settings.prices,
        version=spec.version.id,
        place=spec.place.store,
        peers=partial(_peers, spec, wires) if spec.place.shard.of > 1 else None,
        is_successor=stands_by or is_restarted(),
    )
    trees = SessionTrees(record, spec.kept.all_found(record, spec.version) or [spec.version], spec.kept)
    session = session_actor(environment, spec.name, spec.place.shard, trees)
    share_node(wires.options.secret, spec.settings.max_cache_bytes, session.cache)
    metrics = RayMetrics(spec.settings, spec.app_name, spec.name)
    metrics.start(lambda: of_counts("session", session.figures().counts))
    return session, spec.rehearse, spec.kept


async def _peers(spec: SessionSpec, wires: Wires) -> Mapping[int, SessionRef]:
    """Find the other Session actors over the same store. Raises ValueError when one of them is not there yet."""
    store, own, settings = spec.place.store, spec.place.shard, spec.settings
    others = [number for number in range(store.number * own.of, (store.number + 1) * own.of) if number % own.of != own.index]
    names, standbys = session_names(store.of, own.of), session_standbys(spec.app_name, settings, store.of)
    found = {}
    for number in others:
        handle = await asyncio.to_thread(get_actor, actor_name(spec.app_name, names[number]), settings.namespace)
        name = f"Session actor {names[number]}"
        pair = Pair(handle, standbys[number], settings.namespace) if standbys else None
        found[number % own.of] = SessionRef(
            wires.pair_link(pair, name, settings.restart_timeout_s)
            if pair is not None
            else wires.link(handle, name, settings.restart_timeout_s)
        )
    return found


async def _until_killed() -> None:
    """Wait for the end of this process, which is near when its actor has stopped: senders learn then that the app has ended."""
    await asyncio.sleep(LONGEST_END_S)


class SessionHost(CoreHost):
    """The process of a Session actor. It keeps definitions of flows for the case that a Runner is lost.

    Args:
        chunks: of what builds the actor, of the DeploymentInfo for drivers that join, of the Runners as PlanPeers, of its
            StandbyPlan or None, and of what its node alone may have.
    """

    def __init__(self, namespace: str, *chunks: bytes) -> None:
        info: DeploymentInfo
        build, info, peers, plan, self._bound_to = from_chunks(chunks)
        self._deployment_info = info

        def build_session() -> Actor:
            actor: Actor
            actor, self._rehearse, self._kept = build(self._wires, self._stands_by_first)
            return actor

        super().__init__(build_session, KeptPlans({}, peers), info.wires, info.logs, "session", plan, namespace)
        if plan is None and is_restarted():
            self.tell_replaced()
            threading.Thread(target=self.plans.copy_from_peers, daemon=True).start()

    async def deployment_info(self) -> DeploymentInfo:
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
