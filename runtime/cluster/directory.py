"""Makes agents' actors live on the cluster, when they are spoken to first."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

from ray import cloudpickle

from actors.actor import Actor
from actors.agent import AgentActor
from actors.agents import AgentSpec
from actors.agents.homes import Home
from actors.errors import ClusterError, RaygroveError
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Link
from actors.messages.session import SessionKey
from actors.rules.hosting import default_hosts, replica_of
from actors.runner import RunnerRef
from actors.session import SessionRef
from runtime.cluster.hosts import AgentHost, RayProcess
from runtime.cluster.placing import memory_bytes, placed, ray_options
from runtime.cluster.pool import Pool
from runtime.cluster.remote import Handle, RayLink, RemotePlans, myself, start
from runtime.cluster.tasks import as_task
from runtime.cluster.tenants import Place
from runtime.deployment import open_artifact_store
from runtime.models.registry import resolve
from runtime.settings import Settings


class RayDirectory:
    """Lives in the Runner's process, and has every agent that is spoken to live in a Ray actor.

    Args:
        specs: every agent's AgentSpec, pickled by Ray's pickler.
        homes: of the agents that cannot live just anywhere.
        modules: what the models in the tree will load.
        session: the Session actor.
        artifact_store: URL or store.
        obstacles: see Directory.
        host_name: gives the name of a process.
        settings: the deployment's.
    """

    def __init__(
        self,
        specs: Mapping[str, bytes],
        homes: Mapping[str, Home],
        modules: Sequence[str],
        session: Handle,
        artifact_store: str | ArtifactStore,
        obstacles: Mapping[str, tuple[str, str]],
        host_name: Callable[[str], str],
        settings: Settings,
    ) -> None:
        self.obstacles = obstacles
        self._specs = specs
        self._homes = homes
        self._modules = modules
        self._session = session
        self._artifact_store = artifact_store
        self._host_name = host_name
        self._settings = settings
        self._runner = myself(settings.namespace)
        # Those of a Runner that was lost may still have their names.
        self._mine = uuid.uuid4().hex[:8]
        self._numbers = count(1)
        self._pool = Pool(
            self._start,
            most=settings.max_live_agents or default_hosts(memory_bytes()),
            spares=settings.spare_hosts,
            agents=sum(1 for agent in specs if agent not in homes or not homes[agent].placement.asks),
            idle_timeout_s=settings.idle_timeout_s,
            stop_timeout_s=settings.stop_timeout_s,
        )

    async def link(self, agent: str, key: SessionKey) -> Link:
        """A way to the agent's actor that serves a session, which is made to live if it does not."""
        home = self._homes.get(agent)
        replica = replica_of(key, home.placement.replicas) if home is not None else 0
        return await self._pool.link(Place(agent, replica), home)

    async def _start(self, home: Home | None) -> RayProcess:
        name = self._host_name(f"{self._mine}-{next(self._numbers)}")
        settings = self._settings
        begin: Callable[..., Handle] = partial(
            start,
            AgentHost,
            name,
            settings.namespace,
            settings.max_concurrency,
            partial(furnish, self._session, self._runner, self._artifact_store, name, settings.restart_timeout_s),
            (self._session, self._runner),
            settings.tool_threads,
        )
        try:
            if home is None:
                # Starting a named actor asks Ray's control service and waits for it, so it is done in a thread.
                handle = await asyncio.to_thread(begin)
            else:
                handle = await placed(partial(begin, **ray_options(home.placement)), home, settings)
        except RaygroveError:
            raise
        except Exception as error:
            # Ray has errors of many kinds, also for options that it does not take: for the turn they are one.
            raise ClusterError(f"a process for agents could not be started: {type(error).__name__}: {error}") from error
        return RayProcess(handle, self._specs, self._modules, settings.start_timeout_s)

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
    session: Handle, runner: Handle, artifact_store: str | ArtifactStore, name: str, patience_s: float
) -> Callable[[bytes], Actor]:
    """Make what all agents in a process share. Returns what makes an agent's actor there, of its pickled AgentSpec."""
    session_ref = SessionRef(RayLink(session, "the Session actor", patience_s))
    # When the Runner is lost, so are the runs that it has asked for: nobody waits for it here.
    runner_ref = RunnerRef(RayLink(runner, "the Runner"))
    artifacts = open_artifact_store(artifact_store)
    plans = RemotePlans(runner, cloudpickle.loads)

    def build(pickled: bytes) -> Actor:
        spec: AgentSpec = cloudpickle.loads(pickled)
        return AgentActor(spec, session_ref, lambda: runner_ref, artifacts, resolve, name, as_task, plans.find)

    return build
