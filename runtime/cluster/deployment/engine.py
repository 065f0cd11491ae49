"""The engine that starts a deployment on Ray."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial

import ray
from ray.exceptions import RayError

from actors.errors import ClusterError, DefinitionError, DeploymentExistsError
from actors.layers.schedules.messages import WatchSchedules
from actors.layers.updates.rules import first_record
from actors.messages import protocol as p
from actors.messages.event import now_s
from actors.messages.protocol.base import PROTOCOL
from actors.messages.session import Shard
from actors.rules.sharding import all_shards
from runtime.cluster.core.actors import ActorStarter, actor_names, limiter_name, runner_standbys, session_standbys
from runtime.cluster.core.limiter import KeptModelLimits, LimiterHost, build_limiter
from runtime.cluster.core.runner import RunnerHost, RunnerSpec, build_runner
from runtime.cluster.core.session import SessionHost, SessionSpec, build_session
from runtime.cluster.core.standby import StandbyPlan
from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.deployment.deployed import DeployedEngine
from runtime.cluster.deployment.shared_models import SharedModels, is_shared
from runtime.cluster.notices import DeploymentNotice, UpgradeNotice, this_release
from runtime.cluster.packing.definitions import PackedDefinitions, PackedTree, pack_tree
from runtime.cluster.packing.pickling import pickled
from runtime.cluster.packing.versions import PackedVersion, packed_tree, pickled_plans
from runtime.cluster.processes.placing import away_from, core_needs
from runtime.cluster.transport.clients import CoreHandles, DeploymentInfo
from runtime.cluster.transport.pair import Standing
from runtime.cluster.transport.plans import PlanPeers
from runtime.cluster.transport.ray_actors import Handle, RayOptions, get_actor, on_node
from runtime.cluster.transport.wires import WireOptions
from runtime.engine.deployment import Deployment, plans_of
from runtime.engine.placing import SessionActorPlace, seat_stores, session_places
from runtime.engine.store_urls import check_artifact_folder, is_seen_by_all_nodes, slow_imports_of
from runtime.observability.logs.sinks import log_options
from runtime.stores.owner import this_process, this_program

ANY_NUMBER = 1_000_000
"""Messages at the same time for the limiter: every call waits there for its permit, and none could return its permit if the
waiting ones took up all room."""


SECRET_BYTES = 32
"""Length of the secret by which the processes of a deployment know each other."""


class RayEngine(DeployedEngine):
    """Implements `runtime.engine.interface.Engine`: starts a deployment.

    Args:
        address: of a cluster; None uses the Ray that this process has initialised, or starts a local one, which is then
            shut down with the engine.

    Raises:
        DefinitionError: the artifact store is in memory, which the processes of a deployment do not share; or there is a clock.
    """

    def __init__(self, deployment: Deployment, address: str | None) -> None:
        settings = deployment.settings
        imported = slow_imports_of(deployment.stores)
        connection = RayConnection(settings, address, may_start=not deployment.detached, imported=imported)
        super().__init__(deployment.app_name, settings, connection)
        if deployment.clock is not None:
            raise DefinitionError(
                "a clock of a test is of one process, and agents on Ray have their own: use engine='local' with it"
            )
        store = deployment.artifact_store
        if isinstance(store, str) and store.startswith("memory:"):
            raise DefinitionError(
                f"artifact_store {store!r} is of one process: on Ray use a folder that all nodes see, or s3://, gs://"
            )
        self.artifact_store = deployment.artifact_store
        self.auto_create_session = deployment.auto_create_session
        self.lasts = deployment.detached
        self.deployment = deployment
        self._id = secrets.token_hex(8)
        self._starter = ActorStarter(deployment)
        self._models = SharedModels(deployment.app_name, self._starter)
        self.keep_versions_as(self._id, settings, self._models.replacement)
        self._reached_by = WireOptions(settings.transport, secrets.token_bytes(SECRET_BYTES), settings.direct_ports or "")
        self._packing: Future[PackedDefinitions] | None = None
        self._upgrade: UpgradeNotice | None = None
        self._standby_starter: Callable[[Shard, RayOptions], Handle] | None = None

    def prepare(self) -> None:
        """Connect to Ray, or start it, and pack the definitions meanwhile. Raises ClusterError, StoreError."""
        check_artifact_folder(self.deployment.artifact_store)
        tree = self.deployment.tree
        if ray.is_initialized() or any(map(is_shared, (*tree.models.values(), tree.summary_model))):
            # Connecting takes no time, or packing has to start the actors of models and needs Ray for that.
            self._connection.open()
            return
        with ThreadPoolExecutor(1, thread_name_prefix="definitions") as thread:
            self._packing = thread.submit(pack_tree, tree, self._models.replacement)
            self._connection.open()

    async def start(self) -> None:
        """Start the Session actors, the limiter and the Runners.

        Raises:
            DefinitionError: something cannot travel to its actor.
            DeploymentExistsError: the app runs already.
            ClusterError: the actors do not answer.
            StoreError: a store cannot be used.
        """
        self.use_threads()
        self.watch_ray()
        try:
            await self._in_thread(self._start_actors)
            # The first process for agents starts as soon as the Runner can ask for it, beside the Session actor; that opens its
            # store meanwhile.
            self.start_spares()
            answers = [asyncio.ensure_future(each) for each in (self.wait_for_replies(), self.session.ask(p.OpenStore()))]
            try:
                await asyncio.gather(*answers)
            finally:
                # Where one has failed the other still waits.
                for answer in answers:
                    answer.cancel()
            await seat_stores(self.deployment.app_name, self.session)
            await self.runner.ask(WatchSchedules())
            await self._in_thread(self._start_standbys)
            if self._settings.log_to_driver:
                self.read_logs(self._logs, from_now=False)
            await self._models.wait_until_started()
            if self._upgrade is not None:
                await asyncio.to_thread(self._end_upgrade)
        except BaseException as error:
            await self._end()
            if isinstance(error, TimeoutError):
                raise ClusterError(
                    f"the actors of app {self.deployment.app_name!r} did not answer within "
                    f"{self._settings.start_timeout_s} s: has the cluster room for them?"
                ) from error
            raise

    async def _in_thread(self, work: Callable[[], None]) -> None:
        """Do some work in a thread, and wait for its end even when cancelled: closing Ray under a call crashes the process."""
        # No task, which the closing loop would cancel by itself.
        working = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            while not working.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((working,))
            working.exception()
            raise

    def _start_actors(self) -> None:
        deployment, settings = self.deployment, self._settings
        self._logs = log_options(deployment.app_name, settings)
        self._upgrade = self.notices.upgrade()
        self._begin_versions(self._upgrade)
        stores = len(deployment.stores)
        places = session_places(stores, settings.session_shards)
        sessions = [self._start_session(*each) for each in zip(places, all_shards(len(places)), strict=True)]
        self._refuse_other_shards()
        limiter = self._start_limiter() if settings.model_limits else None
        packed = self._packed_tree()
        plans = pickled_plans(plans_of(deployment.tree))
        self._plugins = pickled("the plugins cannot travel to the Runner", deployment.tree.plugins)
        runners = [self._start_runner(packed, plans, shard) for shard in all_shards(settings.runners)]
        if settings.standby_runners:
            self._standby_starter = partial(self._start_runner, packed, plans, is_first=False)
        # Now that their names are those of this deployment. What an upgrade has left stays until it is done.
        self.kept.forget_others(self._upgrade.deployment if self._upgrade is not None else "")
        if deployment.detached:
            self._tell_deployment(packed, plans)
        self.connect(CoreHandles(sessions, runners, limiter, self._reached_by, stores=stores), settings)

    def _begin_versions(self, upgrade: UpgradeNotice | None) -> None:
        """Keep the version of the tree, and those that an upgrade has left."""
        version = self.deployment.tree.version
        if upgrade is not None:
            self.kept.take_over(upgrade.deployment, upgrade.versions, version)
        else:
            self.kept.begin(version, first_record(version, now_s()))

    def _end_upgrade(self) -> None:
        self.notices.forget_upgrade()
        self.kept.forget_others()

    def _tell_deployment(self, packed: PackedTree, plans: Mapping[str, bytes]) -> None:
        """Tell programs of all versions what is spoken here, and keep the tree: the deployment may outlive it by upgrades."""
        tree = self.deployment.tree
        before = self._upgrade.all_before if self._upgrade is not None else ()
        self.notices.put(DeploymentNotice(deployment=self._id, release=this_release(), protocol=PROTOCOL, before=before))
        # A Ray that keeps nothing runs it all the same.
        with suppress(ClusterError):
            self.trees.keep_packed(PackedVersion(tree.version, packed, self._plugins, plans))

    def _start_session(
        self, place: SessionActorPlace, apart: Shard, placed: RayOptions | None = None, *, is_first: bool = True
    ) -> Handle:
        deployment, settings = self.deployment, self._settings
        stores = deployment.stores[place.store.number]
        driver = None if deployment.detached else this_process()
        version, program = deployment.tree.version, this_program()
        spec = SessionSpec(deployment.app_name, place, *stores, version, self.kept, settings, self._id, driver, program)
        # Programs that join are given no keys.
        public = settings.model_copy(update={"env": {}})
        options = (deployment.artifact_store, deployment.auto_create_session, self._logs, self._reached_by)
        info = DeploymentInfo(public, *options, self._id, len(deployment.stores))
        app = deployment.app_name
        runners = self._peers(*actor_names(app, "runner", settings.runners), *runner_standbys(app, settings))
        standby = _standby_of(apart, session_standbys(app, settings, len(deployment.stores)))
        plan = self._standby_plan(spec.name, standby, is_first=is_first)
        bound_to = "" if is_seen_by_all_nodes(stores[0]) else "its store"
        content = (partial(build_session, spec), info, runners, plan, bound_to)
        return self._starter.start(
            SessionHost,
            spec.name if is_first else standby,
            settings.namespace,
            refusal="the stores cannot travel",
            content=content,
            shard=apart,
            placed=placed,
        )

    def _refuse_other_shards(self) -> None:
        """Refuse an app that runs with another number of Session actors, which have other names. Raises DeploymentExistsError.

        This driver has its own names by now, so of two drivers at the same time at least one finds the other.
        """
        app, settings = self.deployment.app_name, self._settings
        with suppress(ValueError):
            get_actor(actor_names(app, "session", 1 if self._session_actors > 1 else 2)[0], settings.namespace)
            raise DeploymentExistsError(app)

    def _start_limiter(self) -> Handle:
        name = limiter_name(self.deployment.app_name)
        build = partial(build_limiter, self.deployment.app_name, self._settings, KeptModelLimits(self.kept))
        refusal = "the limits of models cannot travel"
        return self._starter.start(
            LimiterHost, name, refusal=refusal, content=(build, self._reached_by), max_concurrency=ANY_NUMBER
        )

    def _packed_tree(self) -> PackedTree:
        tree = self.deployment.tree
        definitions = self._packing.result() if self._packing is not None else pack_tree(tree, self._models.replacement)
        return packed_tree(tree, definitions)

    def _start_standbys(self) -> None:
        settings, stores = self._settings, self.deployment.stores
        standbys: list[Handle] = []
        if settings.standby_sessions:
            places = session_places(len(stores), settings.session_shards)
            for place, apart, session in zip(places, all_shards(len(places)), self._core.sessions, strict=True):
                is_seen = is_seen_by_all_nodes(stores[place.store.number][0])
                placed = self._away_from(session) if is_seen else self._beside(session)
                standbys.append(self._start_session(place, apart, placed, is_first=False))
        start, self._standby_starter = self._standby_starter, None
        if start is not None:
            places_of_runners = map(self._away_from, self._core.runners)
            standbys += [start(*each) for each in zip(all_shards(settings.runners), places_of_runners, strict=True)]
        self._core = replace(self._core, standbys=standbys)

    def _away_from(self, host: Handle) -> RayOptions:
        """Where the standby of an actor is started: on another node, where there is one."""
        node = self._node_of(host)
        return away_from(node, core_needs(self._settings)) if node else {}

    def _beside(self, host: Handle) -> RayOptions:
        """Where it is started when the store may be a file that no other node has: on the same node."""
        node = self._node_of(host)
        return on_node(node) if node else {}

    def _node_of(self, host: Handle) -> str:
        """The node of an actor's process; "": it is not known."""
        with suppress(RayError):
            standing: Standing = ray.get(host.standing.remote(), timeout=self._settings.start_timeout_s)
            return standing.node
        return ""

    def _start_runner(
        self,
        tree: PackedTree,
        plans: Mapping[str, bytes],
        shard: Shard,
        placed: RayOptions | None = None,
        *,
        is_first: bool = True,
    ) -> Handle:
        deployment, settings = self.deployment, self._settings
        version = deployment.tree.version
        options = (deployment.artifact_store, self._plugins, version, self.kept, settings, self._logs, len(deployment.stores))
        spec = RunnerSpec(deployment.app_name, shard, tree, *options)
        sessions = actor_names(deployment.app_name, "session", self._session_actors)
        standby = _standby_of(shard, runner_standbys(deployment.app_name, settings))
        content = (
            partial(build_runner, spec),
            plans,
            self._peers(*sessions, *session_standbys(deployment.app_name, settings, len(deployment.stores))),
            self._reached_by,
            self._logs,
            self._standby_plan(spec.name, standby, is_first=is_first),
        )
        refusal = "the agents cannot travel to the Runner"
        name = spec.name if is_first else standby
        return self._starter.start(
            RunnerHost, name, settings.namespace, refusal=refusal, content=content, shard=shard, placed=placed
        )

    @property
    def _session_actors(self) -> int:
        return len(self.deployment.stores) * self._settings.session_shards

    def _standby_plan(self, name: str, standby: str, *, is_first: bool) -> StandbyPlan | None:
        if not standby:
            return None
        return StandbyPlan(standby if is_first else name, self._settings.namespace, is_first)

    def _peers(self, *names: str) -> PlanPeers:
        return PlanPeers(self._settings.namespace, names, self._settings.restart_timeout_s)

    async def rejoin(self) -> None:
        """Nothing: this program ends with its deployment, or has ended it."""

    async def has_successor(self, error: Exception) -> bool:
        """False: this program ends with its deployment, or has ended it."""
        return False

    async def leave(self) -> None:
        """Leave a detached deployment as it is."""
        await self.leave_logs()
        await self.close_wires()
        await asyncio.to_thread(self._models.bring_home)

    def release(self) -> None:
        """Leave Ray, or end one that was started here: see Engine."""
        self._starter.handles.clear()
        super().release()

    async def stop(self, *, leave_turns: bool = False) -> None:
        """Stop all actors, and wait until their processes are gone: see Engine."""
        await self._end(await self.stop_actors(leave_turns=leave_turns))

    async def _end(self, pids: Sequence[int] = ()) -> None:
        await self.leave_logs()
        await asyncio.to_thread(self._models.bring_home)
        await self.kill_actors(self._starter.handles, pids)
        await self.ask_ray(self.forget_kept, None)
        await self.close_wires()


def _standby_of(shard: Shard, standbys: Sequence[str]) -> str:
    """The name of the standby of an actor, of those of all actors of its kind; "": they have none."""
    return standbys[shard.index] if standbys else ""
