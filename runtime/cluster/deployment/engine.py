"""The engine that starts a deployment on Ray."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import ray

from actors.errors import ClusterError, DefinitionError, DeploymentExistsError
from actors.messages.session import Shard
from actors.rules.capacity.sharding import all_shards
from runtime.cluster.deployment.actor_starter import ActorStarter
from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.deployment.deployed import DeployedEngine
from runtime.cluster.deployment.limiter_builder import build_limiter
from runtime.cluster.deployment.names import actor_names, limiter_name
from runtime.cluster.deployment.runner_builder import RunnerSpec, build_runner
from runtime.cluster.deployment.session_builder import SessionSpec, build_session
from runtime.cluster.deployment.shared_models import SharedModels, is_shared
from runtime.cluster.deployment_info import DeploymentInfo
from runtime.cluster.handle import Handle
from runtime.cluster.packing.chunks import pickled
from runtime.cluster.packing.definitions import PackedDefinitions, PackedTree, pack_tree
from runtime.cluster.packing.versions import packed_tree, pickled_plans
from runtime.cluster.transport.clients import CoreHandles
from runtime.cluster.transport.hosts import LimiterHost, RunnerHost, SessionHost
from runtime.cluster.transport.plans import PlanPeers
from runtime.cluster.transport.ray_actors import get_actor
from runtime.cluster.transport.wires import WireOptions
from runtime.engine.deployment import Deployment
from runtime.engine.local_versions import first_record
from runtime.engine.store_urls import check_artifact_folder
from runtime.observability.logs.options import log_options
from runtime.stores.owner import this_process, this_program

ANY_NUMBER = 1_000_000
"""Messages at the same time for the limiter: every call waits there for its permit, and none could return its permit if the
waiting ones took up all room."""


SECRET_BYTES = 32
"""Length of the secret by which the processes of a deployment know each other."""


class RayEngine(DeployedEngine):
    """Implements `runtime.engine.interface.Engine`: starts a deployment.

    Args:
        deployment: what to start.
        address: of a cluster; None uses the Ray that this process has initialised, or starts a local one, which is then
            shut down with the engine.

    Raises:
        DefinitionError: the artifact store is in memory, which the processes of a deployment do not share; or there is a clock.
    """

    def __init__(self, deployment: Deployment, address: str | None) -> None:
        settings = deployment.settings
        super().__init__(deployment.app_name, settings, RayConnection(settings, address, may_start=not deployment.detached))
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
        self._deployment = deployment
        self._id = secrets.token_hex(8)
        self._starter = ActorStarter(deployment)
        self._models = SharedModels(deployment.app_name, self._starter)
        self.keep_versions_as(self._id, settings, self._models.replacement)
        self._reached_by = WireOptions(settings.transport, secrets.token_bytes(SECRET_BYTES), settings.direct_ports or "")
        self._packing: Future[PackedDefinitions] | None = None

    def prepare(self) -> None:
        """Connect to Ray, or start it, and pack the definitions meanwhile. Raises ClusterError, StoreError."""
        check_artifact_folder(self._deployment.artifact_store)
        tree = self._deployment.tree
        if ray.is_initialized() or any(map(is_shared, tree.models.values())):
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
        try:
            await self._in_thread(self._start_actors)
            # The first process for agents starts as soon as the Runner can ask for it, beside the Session actor; that opens its
            # store meanwhile.
            self.start_spares()
            answers = [asyncio.ensure_future(each) for each in (self.wait_for_replies(), self.session.open_store())]
            try:
                await asyncio.gather(*answers)
            finally:
                # Where one has failed the other still waits.
                for answer in answers:
                    answer.cancel()
            await self.runner.watch_schedules()
            if self._settings.log_to_driver:
                self.read_logs(self._logs, from_now=False)
            await self._models.wait_until_started()
        except BaseException as error:
            await self._end()
            if isinstance(error, TimeoutError):
                raise ClusterError(
                    f"the actors of app {self._deployment.app_name!r} did not answer within "
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
        deployment, settings = self._deployment, self._settings
        self._logs = log_options(deployment.app_name, settings)
        self.kept.begin(deployment.tree.version, first_record(deployment.tree.version))
        sessions = [self._start_session(shard) for shard in all_shards(settings.session_shards)]
        self._refuse_other_shards()
        limiter = self._start_limiter() if settings.model_limits else None
        packed = self._packed_tree()
        plans = pickled_plans(deployment.plans())
        runners = [self._start_runner(shard, packed, plans) for shard in all_shards(settings.runners)]
        # Now that their names are those of this deployment.
        self.kept.forget_others()
        self.connect(CoreHandles(sessions, runners, limiter, self._reached_by), settings)

    def _start_session(self, shard: Shard) -> Handle:
        deployment, settings = self._deployment, self._settings
        stores = deployment.session_store, deployment.memory_store
        driver = None if deployment.detached else this_process()
        version, program = deployment.tree.version, this_program()
        spec = SessionSpec(deployment.app_name, shard, *stores, version, self.kept, settings, self._id, driver, program)
        # Programs that join are given no keys.
        public = settings.model_copy(update={"env": {}})
        options = (deployment.artifact_store, deployment.auto_create_session, self._logs, self._reached_by)
        info = DeploymentInfo(public, *options, self._id)
        content = (partial(build_session, spec), info, self._peers("runner", settings.runners))
        return self._starter.start(SessionHost, spec.name, refusal="the stores cannot travel", content=content, shard=shard)

    def _refuse_other_shards(self) -> None:
        """Refuse an app that runs with another number of Session actors, which have other names. Raises DeploymentExistsError.

        This driver has its own names by now, so of two drivers at the same time at least one finds the other.
        """
        app, settings = self._deployment.app_name, self._settings
        with suppress(ValueError):
            get_actor(actor_names(app, "session", 1 if settings.session_shards > 1 else 2)[0], settings.namespace)
            raise DeploymentExistsError(app)

    def _start_limiter(self) -> Handle:
        name = limiter_name(self._deployment.app_name)
        build = partial(build_limiter, self._deployment.app_name, self._settings)
        refusal = "the limits of models cannot travel"
        return self._starter.start(
            LimiterHost, name, refusal=refusal, content=(build, self._reached_by), max_concurrency=ANY_NUMBER
        )

    def _packed_tree(self) -> PackedTree:
        tree = self._deployment.tree
        definitions = self._packing.result() if self._packing is not None else pack_tree(tree, self._models.replacement)
        return packed_tree(tree, definitions)

    def _start_runner(self, shard: Shard, tree: PackedTree, plans: Mapping[str, bytes]) -> Handle:
        deployment, settings = self._deployment, self._settings
        plugins = pickled("the plugins cannot travel to the Runner", deployment.tree.plugins)
        version = deployment.tree.version
        options = (deployment.artifact_store, plugins, version, self.kept, settings, self._logs)
        spec = RunnerSpec(deployment.app_name, shard, tree, *options)
        content = (
            partial(build_runner, spec),
            plans,
            self._peers("session", settings.session_shards),
            self._reached_by,
            self._logs,
        )
        refusal = "the agents cannot travel to the Runner"
        return self._starter.start(RunnerHost, spec.name, settings.namespace, refusal=refusal, content=content, shard=shard)

    def _peers(self, part: str, number: int) -> PlanPeers:
        settings = self._settings
        names = actor_names(self._deployment.app_name, part, number)
        return PlanPeers(settings.namespace, tuple(names), settings.restart_timeout_s)

    async def leave(self) -> None:
        """Leave a detached deployment as it is."""
        await self.leave_logs()
        await self.close_wires()
        await asyncio.to_thread(self._disconnect)

    def _disconnect(self) -> None:
        self._models.bring_home()
        self._starter.handles.clear()
        self._connection.close()

    async def stop(self, *, leave_turns: bool = False) -> None:
        """Stop all actors, wait until their processes are gone, and shut down a Ray that was started here: see Engine."""
        await self._end(await self.stop_actors(leave_turns=leave_turns))

    async def _end(self, pids: Sequence[int] = ()) -> None:
        await self.leave_logs()
        await asyncio.to_thread(self._models.bring_home)
        await self.kill_actors(self._starter.handles, pids)
        await asyncio.to_thread(self.kept.forget)
        await self.close_wires()
        self._starter.handles.clear()
        await asyncio.to_thread(self._connection.close)
