"""The engine of a driver that joins a deployment on Ray which another driver has started."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ray.exceptions import RayTaskError

from actors.errors import (
    ActorLostError,
    ActorRestartsError,
    ClusterError,
    DefinitionError,
    DeploymentNotFoundError,
    ProtocolMismatchError,
    RaygroveError,
    UpgradingError,
)
from actors.errors.hints import did_you_mean
from actors.errors.tracebacks import rebuild
from actors.interfaces.model import Model
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import EarlyReply, Link
from actors.layers.flows.definitions import FlowPlan
from actors.messages.protocol.base import PROTOCOL, error_in
from actors.messages.session import SessionKey
from runtime.cluster.core.actors import actor_name, actor_names, limiter_name, runner_standbys, session_standbys
from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.deployment.deployed import DeployedEngine
from runtime.cluster.deployment.shared_models import is_shared
from runtime.cluster.notices import UNREADABLE, Notices, this_release
from runtime.cluster.transport.clients import CoreHandles, DeploymentInfo
from runtime.cluster.transport.link import answered
from runtime.cluster.transport.pair import Pair
from runtime.cluster.transport.ray_actors import Handle, get_actor, list_named_actors
from runtime.cluster.transport.wires import WireOptions, Wires
from runtime.observability.logs.sinks import TakeRecord
from runtime.settings import Settings

SEEK_S = 0.1
"""Time between two looks for the deployment that an upgrade starts."""

RETRY_S = 1.0
"""When a program may ask again whose deployment is being upgraded."""


class JoinedEngine(DeployedEngine):
    """Implements `runtime.engine.interface.Engine` for a driver that joins a deployment. It ends nothing when it leaves.

    Args:
        settings: where to look for the actors, and how long to wait for them. All limits are those of the deployment.
        address: of the cluster; None uses the Ray that this process has initialised, else one that is found on this machine.
        logs: what agents log and print from now on comes to this program; or a function, which gets what is kept of it, too.
    """

    lasts = True

    def __init__(self, app_name: str, settings: Settings, address: str | None, *, logs: bool | TakeRecord = False) -> None:
        super().__init__(app_name, settings, RayConnection(settings, address or "auto", may_start=False))
        self._wants_logs = logs
        self._info: DeploymentInfo | None = None
        self._rejoining: asyncio.Task[None] | None = None
        self._notices = Notices(settings.namespace, app_name)
        self._has_left = False
        self.has_ended = False

    @property
    def artifact_store(self) -> str | ArtifactStore | None:
        """URL or store of artifacts, as the deployment says; None before it was joined."""
        return self._info.artifact_store if self._info is not None else None

    @property
    def auto_create_session(self) -> bool:
        """The deployment's setting for turns that say nothing themselves; True before it was joined."""
        return self._info is None or self._info.auto_create_session

    def prepare(self) -> None:
        """Connect to Ray, if need be. Raises ClusterError."""
        self._connection.open()

    async def start(self) -> None:
        """Find the deployment's actors.

        Raises:
            DeploymentNotFoundError: there are none.
            ClusterError: they do not answer.
        """
        self._has_left = False
        self.use_threads()
        self.watch_ray()
        try:
            await self._join()
        except BaseException:
            await self.leave()
            raise

    async def rejoin(self) -> None:
        """Join the deployment that was started in the place of one that has ended. Requests at the same time share one attempt.

        Raises:
            DeploymentNotFoundError: there is none yet.
            ClusterError: its actors do not answer.
        """
        if not self.has_ended:
            return
        if self._rejoining is None or self._rejoining.done():
            self._rejoining = asyncio.create_task(self._join_again())
            # All requests that wait for it may be given up.
            self._rejoining.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._rejoining)

    async def _join_again(self) -> None:
        ended = self._wires
        if not self._connection.is_open:
            await asyncio.to_thread(self._connection.open)
            self.watch_ray()
        await self.leave_logs()
        self._mcp.clear()
        try:
            await self._join(are_logs_new=True)
        finally:
            if ended is not None:
                await ended.close()
        self.has_ended = False

    async def _join(self, *, are_logs_new: bool = False) -> None:
        address = self.address
        try:
            session = await asyncio.to_thread(self._find_session)
            await asyncio.to_thread(self._check_protocol)
            async with asyncio.timeout(self._settings.start_timeout_s):
                self._info = await deployment_info(session)
            settings = self._info.settings
            self.keep_versions_as(self._info.deployment, settings, _plain_model)
            self.connect(await asyncio.to_thread(self._find_core, self._info), settings)
            await self.wait_for_replies()
            if self._wants_logs:
                to = self._wants_logs if callable(self._wants_logs) else None
                self.read_logs(self._info.logs, from_now=to is None and not are_logs_new, to=to)
        except TimeoutError as error:
            reason = (
                f"the actors of app {self._app_name!r}, on the Ray at {address}, "
                f"did not answer within {self._settings.start_timeout_s} s"
            )
            raise ClusterError(reason) from error
        except ActorLostError as error:
            raise await asyncio.to_thread(self._absent, f"It has just ended: {error}", address) from error

    async def _lose_ray(self, reason: str) -> None:
        await super()._lose_ray(reason)
        # The next request joins what is started instead. An earlier one would ask the Ray that this process is leaving, and get
        # no answer.
        self.has_ended = True

    def _check_protocol(self) -> None:
        told = self._notices.deployment()
        if told is not None and told.protocol != PROTOCOL:
            releases = str(told.release), told.protocol, str(this_release()), PROTOCOL
            raise ProtocolMismatchError(self._app_name, *releases)

    async def has_successor(self, error: Exception) -> bool:
        """Wait for the deployment that an upgrade starts in place of the one that has ended: see Engine."""
        if not isinstance(error, UpgradingError):
            return False
        while self.has_ended and not self._has_left:
            # Asked first: the notice ends when the next deployment is there.
            is_expected = await asyncio.to_thread(self._is_upgraded)
            with suppress(RaygroveError):
                await self.rejoin()
                break
            if not is_expected:
                return False
            await asyncio.sleep(SEEK_S)
        return not self._has_left

    def _is_upgraded(self) -> bool:
        upgrade = self._notices.upgrade()
        return upgrade is not None and upgrade.is_under_way

    def _was_upgraded(self) -> bool:
        """The deployment that there is now has been started in place of the one that this program knows."""
        with suppress(*UNREADABLE):
            told = self._notices.deployment()
            return told is not None and self._info is not None and self._info.deployment in told.before
        return False

    def _new_wires(self, options: WireOptions) -> Wires:
        return WatchedWires(options, self._explain)

    async def define(self, name: str, plan: FlowPlan, key: SessionKey) -> None:
        """Send the definition of a flow: see DeployedEngine.define. Raises DeploymentNotFoundError, too."""
        try:
            await super().define(name, plan, key)
        except ActorLostError as error:
            raise await self._explain(error) from error

    async def _explain(self, error: ActorLostError) -> RaygroveError:
        """The error for what was sent to an actor that is lost: it says so when the whole deployment has ended."""
        core = self._core
        if self._has_left or not await self.ask_ray(lambda: self._is_replaced(core), otherwise=False):
            return error
        # Unless another one was joined since.
        self.has_ended = self.has_ended or core is self._core
        hint = "It was stopped: what was sent to it is safe to send again, to the one that is started next"
        return await asyncio.to_thread(self._absent, hint)

    def _is_replaced(self, core: CoreHandles) -> bool:
        """Whether Ray has no Session actor or Runner of a deployment any more under its name."""
        parts = (("session", core.sessions), ("runner", core.runners))
        return any(
            not self._is_named(name, handle)
            for part, handles in parts
            for name, handle in zip(actor_names(self._app_name, part, len(handles)), handles, strict=True)
        )

    def _is_named(self, name: str, handle: Handle) -> bool:
        with suppress(ValueError):
            return bool(get_actor(name, self._settings.namespace)._actor_id == handle._actor_id)
        return False

    def _find_session(self) -> Handle:
        """A Session actor. How many there are is in its deployment info, so both names of a first one are tried."""
        for shards in (1, 2):
            with suppress(ValueError):
                return get_actor(actor_names(self._app_name, "session", shards)[0], self._settings.namespace)
        raise self._absent(_hint(self._app_name, self._settings.namespace))

    def _find_core(self, info: DeploymentInfo) -> CoreHandles:
        app, settings = self._app_name, info.settings
        try:
            limiter = self._find([limiter_name(app)] if settings.model_limits else [])
            return CoreHandles(
                sessions=self._find(actor_names(app, "session", info.stores * settings.session_shards)),
                runners=self._find(actor_names(app, "runner", settings.runners)),
                limiter=limiter[0] if limiter else None,
                wires=info.wires,
                stores=info.stores,
                standbys=self._find_standbys(info),
            )
        except ValueError as error:
            raise self._absent(f"It has just ended, or is being started: {error}") from error

    def _find_standbys(self, info: DeploymentInfo) -> list[Handle]:
        """Processes that stand by for Session actors and Runners, as far as they have been started."""
        found, settings = [], info.settings
        for name in (*session_standbys(self._app_name, settings, info.stores), *runner_standbys(self._app_name, settings)):
            with suppress(ValueError):
                found.append(get_actor(name, self._settings.namespace))
        return found

    def _find(self, names: list[str]) -> list[Handle]:
        return [get_actor(name, self._settings.namespace) for name in names]

    def _absent(self, hint: str, address: str | None = None) -> RaygroveError:
        """Why there is no deployment: it is being upgraded, or was, or there is none. It blocks its thread."""
        if self._is_upgraded() or self._was_upgraded():
            return UpgradingError(self._app_name, RETRY_S)
        hint = f"The Ray is the one at {address or self.address}. {hint}"
        return DeploymentNotFoundError(self._app_name, self._settings.namespace, hint)

    async def leave(self) -> None:
        """Leave the deployment as it is."""
        self._has_left = True
        if self._rejoining is not None:
            self._rejoining.cancel()
        await self.leave_logs()
        await self.close_wires()

    async def stop(self, *, leave_turns: bool = False) -> None:
        """Stop the deployment, whichever driver has started it: see Engine."""
        pids = await self.stop_actors(leave_turns=leave_turns)
        await self.kill_actors(await self.ask_ray(self._all_actors, {}), pids)
        await self.ask_ray(self.forget_kept, None)
        await self.leave()

    def _all_actors(self) -> dict[str, Handle]:
        """All named actors of the app, those of shared models and agents' processes included."""
        namespace = self._settings.namespace
        found = {}
        for _, name in list_named_actors(namespace):
            if name.startswith(actor_name(self._app_name, "")):
                try:
                    found[name] = get_actor(name, namespace)
                except ValueError:
                    # It has ended since it was listed.
                    continue
        return found


def _plain_model(model: str | Model) -> str | Model:
    if is_shared(model):
        kind = type(model).__name__
        raise DefinitionError(
            f"a {kind} has a state that only the program can keep which has started the deployment: update there"
        )
    return model


def _hint(app_name: str, namespace: str) -> str:
    """Name the apps that run instead, or the namespace in which this one does."""
    parts = ((where, *name.split("/")) for where, name in list_named_actors())
    deployed = [(where, app) for where, app, *part in parts if part in (["runner"], ["runner-0"])]
    elsewhere = sorted({where for where, name in deployed if name == app_name})
    if elsewhere:
        return f"It is in namespace {elsewhere[0]!r}: give settings=Settings(namespace={elsewhere[0]!r})"
    here = sorted(name for where, name in deployed if where == namespace)
    if not here:
        return "No app is. Start one with Runtime(…, detached=True)"
    return f"Apps that are: {', '.join(here)}.{did_you_mean(app_name, here)}"


Explain = Callable[[ActorLostError], Awaitable[RaygroveError]]
"""Gives the error that is raised instead of the loss of an actor."""


class WatchedLink:
    """Implements `actors.interfaces.transport.Link` by another link.

    Args:
        explain: asked about each loss.
    """

    def __init__(self, link: Link, explain: Explain) -> None:
        self._link = link
        self._explain = explain

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        """Deliver a message and return the reply. Raises what the other link raises, and what explains a loss."""
        try:
            reply = await self._link.send(raw, once=once, early=early)
        except ActorRestartsError:
            raise
        except ActorLostError as error:
            raise await self._explain(error) from error
        failure = error_in(reply)
        if failure is not None and failure.error == ActorLostError.__name__:
            lost = rebuild(failure.error, failure.args, failure.traceback)
            assert isinstance(lost, ActorLostError)
            raise await self._explain(lost)
        return reply


class WatchedWires(Wires):
    """Makes such links.

    Args:
        explain: see WatchedLink.
    """

    def __init__(self, options: WireOptions, explain: Explain) -> None:
        super().__init__(options)
        self._explain = explain

    def link(self, handle: Handle, name: str, restart_timeout_s: float = 0.0) -> Link:
        """A link to the only actor in a process: see ActorLink."""
        return WatchedLink(super().link(handle, name, restart_timeout_s), self._explain)

    def pair_link(self, pair: Pair, name: str, restart_timeout_s: float) -> Link:
        """A link to the actor that has a standby: see ActorLink."""
        return WatchedLink(super().pair_link(pair, name, restart_timeout_s), self._explain)


async def deployment_info(session: Handle) -> DeploymentInfo:
    """The DeploymentInfo that the host of a Session actor keeps for drivers that join; one that Ray restarts is waited for.

    Raises:
        ActorLostError: the actor is gone.
        ClusterError: it cannot tell.
    """
    try:
        info: DeploymentInfo = await answered(session.deployment_info.remote, "the Session actor", math.inf)
        return info
    except RayTaskError as error:
        raise ClusterError(f"the deployment cannot be joined: {error.cause or error}") from error
