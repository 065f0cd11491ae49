"""The part of an engine on Ray that is the same for a driver that starts a deployment and for one that joins it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import ray

from actors.errors import ActorLostError
from actors.layers.flows.definitions import FlowPlan
from actors.messages.protocol.statistics import ConnectionFigures, Statistics
from actors.messages.session import SessionKey, TurnKey
from actors.refs import Ref, RunnerRef, SessionRef
from actors.rules.sharding import shard_of
from runtime.cluster.control_service_watch import ControlServiceWatch
from runtime.cluster.core.actors import runner_standbys, session_standbys
from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.logs import HubReader, kept_lines
from runtime.cluster.notices import Notices
from runtime.cluster.packing.pickling import pickled_plan
from runtime.cluster.packing.versions import KeptTrees, KeptVersions, ModelReplacement
from runtime.cluster.processes.mcp_servers import mcp_name
from runtime.cluster.transport.clients import CoreHandles, limiter_ref, runner_ref, session_ref
from runtime.cluster.transport.pair import pairs_of
from runtime.cluster.transport.plans import keep_plan
from runtime.cluster.transport.ray_actors import Handle, get_actor, list_named_actors, listed
from runtime.cluster.transport.wires import WireOptions, Wires
from runtime.engine.process.node_caches import caches_in
from runtime.engine.process.tool_threads import ToolThreads
from runtime.observability.logs.kept import DeploymentEvent, LogLine, lines_of
from runtime.observability.logs.lines import by_time, mark_records
from runtime.observability.logs.sinks import LogOptions, RecordSink, Replay, TakeRecord
from runtime.private_files import temporary_folder
from runtime.settings import Settings
from runtime.transport.io.channel import CLOSED
from runtime.transport.io.listening import sweep

T = TypeVar("T")

THREADS = 32
"""Blocking calls of a driver's that may run at the same time."""

LAST_CALLS_S = 10.0
"""How long calls of Ray that are under way in threads may take before this driver disconnects."""

AWAY_S = 1.0
"""How long an actor may take to stop while Ray's control service is away: it may be lost."""

EVENTS_S = 5.0
"""How long a process may take to tell its events."""


class DeployedEngine:
    """The clients of a deployment's actors, and how the actors are ended.

    Attributes:
        session, runner: clients of the Session actors and the Runners, once `connect` was called.
        permits: a client of the actor that limits models; None where no model is limited.
    """

    session: SessionRef
    runner: RunnerRef
    kept: KeptVersions
    notices: Notices
    trees: KeptTrees
    settings: Settings | None = None
    limiter: Ref | None = None
    loop_clock = None
    has_ended = False

    def __init__(self, app_name: str, settings: Settings, connection: RayConnection) -> None:
        self._app_name = app_name
        self._settings = settings
        self._connection = connection
        self._core = CoreHandles((), (), None, WireOptions("ray", b""))
        self._wires: Wires | None = None
        self._restart_timeout_s = 0.0
        self._log_reader: HubReader | None = None
        self._mcp: dict[str, Ref] = {}
        self._control: ControlServiceWatch | None = None
        self._threads = ToolThreads(THREADS)

    def use_threads(self) -> None:
        """Have this event loop make blocking calls in threads that end with the program, whatever Ray does."""
        self._threads = ToolThreads(THREADS)
        asyncio.get_running_loop().set_default_executor(self._threads)

    def watch_ray(self) -> None:
        """Notice when the control service of the Ray that this program is connected with is away."""
        if self.address is not None:
            self._control = ControlServiceWatch(self.address, self._connection.patience_s, self._lose_ray)

    async def _lose_ray(self, reason: str) -> None:
        """Fail what waits for the deployment, and leave Ray, which would end this program: its control service stays away."""
        await self.close_wires(f"{reason}, and Ray ends programs that wait for it")
        await asyncio.to_thread(self._connection.abandon)

    @property
    def control_service_away_s(self) -> float:
        """For how long this program has not reached Ray's control service; 0: it does."""
        return self._control.away_s if self._control is not None else 0.0

    @property
    def can_ask_ray(self) -> bool:
        """Whether Ray's control service would answer. Questions to one that is away wait until Ray ends this program."""
        return self._connection.is_open and not self.control_service_away_s

    async def ask_ray(self, ask: Callable[[], T], otherwise: T) -> T:
        """Ask Ray, until its control service is away, and for no longer than actors may take to stop.

        Args:
            ask: blocks its thread.
            otherwise: the answer when Ray's control service gives none.
        """
        if not self.can_ask_ray:
            return otherwise
        asking = asyncio.create_task(asyncio.to_thread(ask))
        ends = [asking, *([asyncio.create_task(self._control.until_away())] if self._control is not None else [])]
        try:
            await asyncio.wait(ends, timeout=self._settings.stop_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else otherwise
        finally:
            for each in ends:
                each.cancel()

    @property
    def address(self) -> str | None:
        """Where the Ray is that is used, as `host:port`; None before it is connected."""
        return self._connection.address

    def connect(self, core: CoreHandles, settings: Settings) -> None:
        """Make the clients. `settings`: the deployment's, not those of this driver."""
        core = replace(
            core, pairs=pairs_of(core.sessions, session_standbys(self._app_name, settings, core.stores), settings.namespace)
        )
        restart_timeout_s, max_bytes = settings.restart_timeout_s, settings.max_message_bytes
        self._wires = wires = self._new_wires(core.wires)
        self.session = session_ref(wires, core, restart_timeout_s, max_bytes)
        pairs = pairs_of(core.runners, runner_standbys(self._app_name, settings), settings.namespace)
        self.runner = runner_ref(wires, core.runners, restart_timeout_s, max_bytes, pairs)
        self.limiter = limiter_ref(wires, core.limiter, restart_timeout_s) if core.limiter is not None else None
        self._core = core
        self._restart_timeout_s = restart_timeout_s

    def _new_wires(self, options: WireOptions) -> Wires:
        """The connections of this driver."""
        return Wires(options)

    async def define(self, name: str, plan: FlowPlan, key: SessionKey) -> None:
        """Send the definition of a flow to the Runner and the Session actor of a session, so that it survives either of them.

        Raises:
            DefinitionError: it cannot be pickled.
            ActorLostError: one of the actors is gone.
        """
        pickled = pickled_plan(plan.name, plan)
        hosts = {"the Runner": self._core.runners, "the Session actor": self._core.sessions}
        await asyncio.gather(
            *(
                keep_plan(handles[shard_of(key, len(handles))], actor, name, pickled, self._restart_timeout_s)
                for actor, handles in hosts.items()
            )
        )

    def start_spares(self) -> None:
        """Have all Runners start spare processes for agents, in the background."""
        for runner in self._core.runners:
            runner.start_spares.remote()

    def read_logs(self, options: LogOptions, *, from_now: bool, to: TakeRecord | None = None) -> None:
        """Have what agents log and print come to this program.

        Args:
            from_now: leave out what they have said before.
            to: gets all of it, in place of the program's `logging` and terminal.
        """
        mark_records()
        take = RecordSink(to) if to is not None else _replay(options)
        handles = self._core.hosts()
        self._log_reader = HubReader(handles, take.put_lines, from_now=from_now)

    async def deployment_events(self) -> Sequence[DeploymentEvent]:
        """The events that the processes of Session actors and Runners keep: see Engine. One that is lost has none."""
        handles = self._core.hosts()
        answers: list[Sequence[DeploymentEvent]] = await asyncio.gather(
            *(listed(handle.deployment_events.remote, EVENTS_S) for handle in handles)
        )
        # Of each process they come in order.
        told = [(number, event) for number, answer in enumerate(answers) for event in answer]
        return [event for _, event in by_time(told, lambda each: each[1].at_s, lambda each: each[0])]

    async def log_lines(self, turn: TurnKey) -> Sequence[LogLine]:
        """List what agents have logged and printed in a turn, of what the core actors keep: see Engine."""
        handles = self._core.hosts()
        return lines_of(await kept_lines(handles), turn)

    async def leave_logs(self) -> None:
        """Read what agents have said so far, and no more."""
        reader, self._log_reader = self._log_reader, None
        if reader is not None:
            await reader.close()

    def connections(self) -> ConnectionFigures | None:
        """The figures of messages to and from this driver; None before `connect` was called."""
        return self._wires.figures() if self._wires is not None else None

    async def mcp_servers(self) -> Mapping[str, Ref]:
        """Clients of the actors of MCP servers: see Engine."""
        handles = await self.ask_ray(self._mcp_handles, dict[str, Handle]())
        return {name: self._mcp_ref(name, handle) for name, handle in handles.items()}

    def _mcp_handles(self) -> dict[str, Handle]:
        prefix, found = mcp_name(self._app_name, ""), dict[str, Handle]()
        for name in _names_below(prefix, self._settings.namespace):
            with suppress(ValueError):
                found[name] = get_actor(prefix + name, self._settings.namespace)
        return found

    def _mcp_ref(self, name: str, handle: Handle) -> Ref:
        assert self._wires is not None
        if name not in self._mcp:
            self._mcp[name] = Ref(self._wires.link(handle, f"the actor of MCP server {name!r}", self._restart_timeout_s))
        return self._mcp[name]

    def keep_versions_as(self, deployment: str, settings: Settings, replace_model: ModelReplacement) -> None:
        """Find the versions of the tree, and keep them, under the id of a deployment.

        Args:
            replace_model: gives what travels instead of a model.
        """
        self.settings = settings
        self.notices = Notices(settings.namespace, self._app_name)
        self.kept = KeptVersions(settings.namespace, self._app_name, deployment)
        self.trees = KeptTrees(self.kept, replace_model, settings)

    def forget_kept(self) -> None:
        """Forget the versions of the tree: the deployment has ended, and is not upgraded."""
        upgrade = self.notices.upgrade()
        if upgrade is None or upgrade.deployment != self.kept.deployment:
            self.kept.forget()
        self.notices.forget_deployment(self.kept.deployment)

    def release(self) -> None:
        """Leave Ray: see Engine."""
        # To close Ray under a call crashes the process.
        self._threads.wait(LAST_CALLS_S if self.can_ask_ray else 0.0)
        self._threads.shutdown()
        self._connection.close()
        with suppress(OSError):
            # Actors were killed, or have ended with Ray, and leave sockets and notes of their caches.
            sweep(temporary_folder())
            caches_in(temporary_folder())

    async def close_wires(self, reason: str = CLOSED) -> None:
        """End this driver's connections. What waits for the deployment fails for that reason."""
        if self._wires is not None:
            await self._wires.close(reason)

    async def wait_for_replies(self) -> None:
        """Wait until all actors reply. Raises TimeoutError, ActorLostError."""
        async with asyncio.timeout(self._settings.start_timeout_s):
            await asyncio.gather(*(actor.statistics() for actor in self._clients()))

    async def stop_actors(self, *, leave_turns: bool = False) -> list[int]:
        """Have all actors stop their work. Returns their process ids."""
        # First of all: a process that stands by would take an actor that is ended for a lost one.
        hosts = self._core.hosts() if self._core.standbys else []
        # Ray tells of no loss then.
        timeout_s = self._settings.stop_timeout_s if self.can_ask_ray else min(AWAY_S, self._settings.stop_timeout_s)
        end_s = asyncio.get_running_loop().time() + timeout_s
        pids = await retire(hosts, timeout_s)
        with suppress(ActorLostError, TimeoutError):
            async with asyncio.timeout_at(end_s):
                everything = _flat(*await asyncio.gather(*(actor.statistics() for actor in self._clients())))
                pids += [pid for each in everything for pid in (each.pid, *each.spare_pids) if pid]
        for actor in self._clients():
            with suppress(ActorLostError, TimeoutError):
                async with asyncio.timeout_at(end_s):
                    await (actor.stop(leave_turns=leave_turns) if isinstance(actor, RunnerRef) else actor.stop())
        await self.leave_logs()
        return pids

    async def kill_actors(self, handles: Mapping[str, Handle], pids: Sequence[int] = ()) -> None:
        """End actors at once, and wait until their names are free and the processes on this machine have ended.

        Args:
            pids: of all processes to wait for.
        """
        if not self.can_ask_ray:
            # They end with their Ray.
            return
        for handle in handles.values():
            ray.kill(handle)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_timeout_s):
                # Neither Ray nor the kernel notifies when a process ends that is not a child, so both are polled.
                while await self.ask_ray(partial(self._any_is_named, handles), otherwise=False) or (  # noqa: ASYNC110
                    self.can_ask_ray and any(_is_alive(pid) for pid in pids)
                ):
                    await asyncio.sleep(0.01)

    def _clients(self) -> list[SessionRef | RunnerRef | Ref]:
        """Clients of the core actors, in the order in which these stop."""
        return [self.runner, self.session, *([self.limiter] if self.limiter is not None else [])]

    def _any_is_named(self, handles: Mapping[str, Handle]) -> bool:
        return any(name in handles for _, name in list_named_actors(self._settings.namespace)) if handles else False


def _replay(options: LogOptions) -> Replay:
    return Replay(options.app_name, options.format, filters=options.level_is_programs)


def _names_below(prefix: str, namespace: str) -> list[str]:
    return [name.removeprefix(prefix) for _, name in list_named_actors(namespace) if name.startswith(prefix)]


def _flat(*statistics: Statistics) -> list[Statistics]:
    return [each for one in statistics for each in (one, *_flat(*one.agents), *_flat(*one.parts))]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


async def retire(hosts: Sequence[Handle], timeout_s: float) -> list[int]:
    """Have processes that stand by take no place any more. A process that does not answer is left out.

    Args:
        hosts: the processes of Session actors and Runners, those of standbys included.

    Returns:
        The ids of the processes that stood by.
    """
    answers: list[Sequence[int]] = await asyncio.gather(*(listed(host.retire.remote, timeout_s) for host in hosts))
    return [pid for pids in answers for pid in pids]
