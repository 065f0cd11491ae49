"""Makes agents' actors live on the cluster, when they are spoken to first."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

from ray import cloudpickle

from actors.actor import Actor
from actors.agent.actor import AgentActor
from actors.agent.rate_limited_model import LimiterClient
from actors.definitions.tree.process_groups import ProcessGroup, replica_for
from actors.errors import ClusterError, RaygroveError
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Link
from actors.messages.session import SessionKey
from actors.refs.runner import RunnerRef
from actors.rules.capacity.process_choice import default_hosts
from runtime.cluster.packing.definitions import PackedDefinitions, spec_of
from runtime.cluster.processes.agent_host import AgentHost, RayProcess
from runtime.cluster.processes.placing import is_free, memory_bytes, placed, ray_options
from runtime.cluster.processes.pool import Pool
from runtime.cluster.tool_tasks import as_task
from runtime.cluster.transport.clients import limiter_ref, session_ref
from runtime.cluster.transport.link import Handle, RayLink
from runtime.cluster.transport.proxies import RemotePlans
from runtime.cluster.transport.ray_actors import SPREAD, myself, start
from runtime.engine.store_urls import open_artifact_store
from runtime.models.registry import resolve
from runtime.settings import Settings


class RayDirectory:
    """Lives in the Runner's process, and has every agent that is spoken to live in a Ray actor.

    Args:
        definitions: of all agents.
        homes: of the agents that cannot live just anywhere.
        modules: what the models in the tree will load.
        sessions: the Session actors.
        permits: the actor that limits models; None: none is limited.
        artifact_store: URL or store.
        obstacles: see Directory.
        host_name: gives the name of a process.
        settings: the deployment's.
    """

    def __init__(
        self,
        definitions: PackedDefinitions,
        homes: Mapping[str, ProcessGroup],
        modules: Sequence[str],
        sessions: Sequence[Handle],
        permits: Handle | None,
        artifact_store: str | ArtifactStore,
        obstacles: Mapping[str, tuple[str, str]],
        host_name: Callable[[str], str],
        settings: Settings,
    ) -> None:
        self.obstacles = obstacles
        self._definitions = definitions
        self._homes = homes
        self._modules = modules
        self._sessions = sessions
        self._permits = permits
        self._artifact_store = artifact_store
        self._host_name = host_name
        self._settings = settings
        self._runner = myself(settings.namespace)
        # Those of a Runner that was lost may still have their names.
        self._mine = uuid.uuid4().hex[:8]
        self._numbers = count(1)
        self._pool = Pool(
            self._start,
            is_free,
            most=settings.max_live_agents or default_hosts(memory_bytes() / settings.runners),
            spares=settings.spare_hosts,
            agents=len(definitions) - sum(home.placement.asks for home in homes.values()),
            idle_timeout_s=settings.idle_timeout_s,
            stop_timeout_s=settings.stop_timeout_s,
        )

    async def link(self, agent: str, key: SessionKey) -> Link:
        """A way to the agent's actor that serves a session, which is made to live if it does not."""
        return await self._pool.link(replica_for(self._homes, agent, key), self._homes.get(agent))

    async def _start(self, home: ProcessGroup | None) -> RayProcess:
        name = self._host_name(f"{self._mine}-{next(self._numbers)}")
        settings = self._settings
        begin: Callable[..., Handle] = partial(
            start,
            AgentHost,
            name,
            settings.namespace,
            settings.max_concurrency,
            partial(furnish, self._sessions, self._runner, self._permits, self._artifact_store, name, settings),
            (*self._sessions, self._runner, *([self._permits] if self._permits is not None else [])),
            settings.tool_threads,
        )
        try:
            if home is None:
                # Starting a named actor asks Ray's control service and waits for it, so it is done in a thread.
                handle = await asyncio.to_thread(begin, **SPREAD)
            else:
                handle = await placed(partial(begin, **ray_options(home.placement)), home, settings)
        except RaygroveError:
            raise
        except Exception as error:
            # Ray has errors of many kinds, also for options that it does not take: for the turn they are one.
            raise ClusterError(f"a process for agents could not be started: {type(error).__name__}: {error}") from error
        return RayProcess(handle, self._definitions, self._modules, settings.start_timeout_s)

    def fill(self) -> None:
        """Begin to have processes stand ready."""
        self._pool.fill()

    def forget(self, agent: str, link: Link) -> None:
        """The agent's actor is gone, or does not listen: its process is ended, and the next message finds another."""
        self._pool.forget(link)

    def live(self) -> Sequence[tuple[str, Link]]:
        """All agents that live now."""
        return [(str(place), link) for place, link in self._pool.live()]

    def counts(self) -> Mapping[str, int]:
        """How many processes there are, and how often agents came and went."""
        return self._pool.counts()

    def spare_pids(self) -> Sequence[int]:
        """The process ids of those in which no agent lives."""
        return self._pool.spare_pids()

    async def close(self) -> None:
        """Stop every agent's actor, and end the processes."""
        await self._pool.close()


def furnish(
    sessions: Sequence[Handle],
    runner: Handle,
    permits: Handle | None,
    artifact_store: str | ArtifactStore,
    name: str,
    settings: Settings,
) -> Callable[[bytes], Actor]:
    """Make what all agents in a process share. Returns what makes an agent's actor there, of its definition."""
    patience_s = settings.restart_timeout_s
    session = session_ref(sessions, patience_s)
    # When the Runner is lost, so are the runs that it has asked for: nobody waits for it here.
    runner_ref = RunnerRef(RayLink(runner, "the Runner"))
    artifacts = open_artifact_store(artifact_store)
    plans = RemotePlans(runner, cloudpickle.loads)
    gate = LimiterClient(limiter_ref(permits, patience_s), settings.model_limits) if permits is not None else None

    def build(raw: bytes) -> Actor:
        spec = spec_of(raw)
        return AgentActor(spec, session, lambda: runner_ref, artifacts, resolve, name, as_task, plans.find, gate=gate)

    return build
