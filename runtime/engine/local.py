"""The engine without Ray: the same actor classes in the calling process, for unit tests and notebooks.

All that it keeps, such as the versions of a tree, is lost with the process, as its deployment is.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from functools import partial

from actors.actor import Actor
from actors.agent.environment import AgentEnvironment
from actors.agent.views import ViewMemory
from actors.errors import ClusterError, DefinitionError, UpdateConflictError
from actors.interfaces.clock import WallClock
from actors.interfaces.telemetry import LOGGER, NO_TELEMETRY, Telemetry
from actors.interfaces.transport import EARLY_REPLY, EarlyReply, Link
from actors.layers.flows.definitions import FlowPlan
from actors.layers.flows.definitions.flow import FlowPlans
from actors.layers.interceptors import interceptors
from actors.layers.kinds import agent_actor
from actors.layers.limiter.actor import LimiterActor
from actors.layers.limiter.client import LimiterClient
from actors.layers.mcp.messages import McpServer
from actors.layers.mcp.toolset import McpServers
from actors.layers.means import all_means
from actors.layers.placing.client import runner_client, stores_client
from actors.layers.schedules.messages import WatchSchedules
from actors.layers.services import runner_actor, session_actor
from actors.layers.toolsets import OpenToolsets
from actors.layers.trees.process_groups import Replica
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.rules import MarkedVersion, Marks, first_record, known_still, marks_of, serves_any
from actors.layers.updates.versions import RunnerTree, SessionTrees, TreeVersion, VersionRecord
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import now_s
from actors.messages.protocol.base import Stop
from actors.messages.session import SessionKey, Shard, TurnKey
from actors.refs import Ref, RunnerRef, SessionRef
from actors.rules.queues import least_opened
from actors.rules.sharding import all_shards, shard_name
from actors.runner.environment import RunnerEnvironment
from actors.session.environment import FindPeers, SessionEnvironment
from runtime.engine.deployment import Deployment, FlowRegistry, distinct_models, model_checks, obstacles, plans_of
from runtime.engine.placing import SessionActorPlace, seat_stores, session_places
from runtime.engine.process.process_watch import OwnProcess, ProcessWatch
from runtime.engine.process.tool_threads import ToolThreads
from runtime.engine.process.variables import set_variables
from runtime.engine.store_urls import check_artifact_folder, open_artifact_store, open_memory_store, open_session_store
from runtime.integrations.mcp.actor import McpActor
from runtime.models.registry import ModelPool
from runtime.observability.logs.kept import DeploymentEvent, EventRing, LineRing, LogLine, RingHandler, let_events_through
from runtime.observability.logs.lines import mark_records
from runtime.observability.telemetry.setup import process_telemetry
from runtime.stores.owner import StoreOwner, this_process, this_program

logger = logging.getLogger(__name__)


class LocalEngine:
    """Implements `Engine`: all actors live on the event loop that calls `start`.

    Raises:
        DefinitionError: the deployment is detached.
    """

    session: SessionRef
    runner: RunnerRef
    limiter: Ref | None = None
    lasts = False
    address: str | None = None
    control_service_away_s = 0.0
    has_ended = False

    def __init__(self, deployment: Deployment) -> None:
        if deployment.detached:
            raise DefinitionError("a detached deployment lives on a Ray cluster: engine='local' ends with this program")
        self.artifact_store = deployment.artifact_store
        self.auto_create_session = deployment.auto_create_session
        self.loop_clock = deployment.clock
        self.settings = deployment.settings
        self._deployment = deployment
        # Where the time stands still, nothing can be done from time to time.
        self._owner = StoreOwner(
            deployment.app_name,
            secrets.token_hex(8),
            this_process(),
            driver=this_process(),
            program=this_program(),
            renews=deployment.clock is None,
        )
        self._plans = FlowRegistry(plans_of(deployment.tree))
        self.trees = LocalVersions(deployment.app_name, deployment.tree, self._plans)
        self._models = ModelPool()
        self._threads: ToolThreads | None = None
        self._watch: ProcessWatch | None = None
        self._telemetry: Telemetry = NO_TELEMETRY
        self._limiter_client: LimiterClient | None = None
        self._places = session_places(len(deployment.stores), self.settings.session_shards)
        # Of each Session actor, and of the agents of each Runner.
        self._cache_bytes = self.settings.max_cache_bytes // (len(self._places) + self.settings.runners)
        self._mcp_servers = LocalMcpServers()
        self._mcp = McpServers(self._mcp_servers.find)
        self._events = EventRing()
        self._event_handler = RingHandler(self._events)
        self._lines = LineRing(deployment.app_name)

    def prepare(self) -> None:
        """Check what can be checked of the artifact store. Raises StoreError."""
        check_artifact_folder(self._deployment.artifact_store)

    def release(self) -> None:
        """Nothing: see Engine."""

    async def start(self) -> None:
        """Create the actors. Raises StoreError when a store cannot be used."""
        mark_records()
        let_events_through()
        logging.getLogger(LOGGER).addHandler(self._event_handler)
        logging.root.addHandler(self._lines)
        settings = self._deployment.settings
        set_variables(settings.variables)
        self._telemetry = process_telemetry(settings, self._deployment.app_name)
        self._threads = ToolThreads(settings.tool_threads)
        asyncio.get_running_loop().set_default_executor(self._threads)
        self._watch = ProcessWatch(partial(logger.warning, "%s"))
        if settings.model_limits:
            self.limiter = Ref(LocalLink(LimiterActor(settings.model_limits, user_weights=settings.user_weights)))
            self._limiter_client = LimiterClient(self.limiter, settings.model_limits)
        self.session = stores_client([self._create_session(place) for place in self._places], len(self._deployment.stores))
        self.runner = runner_client([self._create_runner(shard) for shard in all_shards(settings.runners)])
        try:
            await self.session.ask(p.OpenStore())
            await seat_stores(self._deployment.app_name, self.session)
            await self.runner.ask(WatchSchedules())
        except BaseException:
            await self.stop()
            raise

    def _create_session(self, place: SessionActorPlace) -> SessionRef:
        deployment = self._deployment
        settings = deployment.settings
        # As on Ray, each of several Session actors has its own copy of stores that are given as objects.
        stores = deployment.stores[place.store.number]
        session_store, memory_store = stores if place.shard.of == 1 else deepcopy(stores)
        environment = SessionEnvironment(
            open_session_store(session_store, settings, self._owner),
            deployment.tree.topology,
            memory=open_memory_store(memory_store, settings),
            store_timeout_s=settings.store_timeout_s,
            keep_calls_s=settings.keep_requests_s,
            limits=settings.limits,
            writer=f"{deployment.app_name}/{place.name} {self._owner.deployment}",
            prices=settings.prices,
            now_s=(self.loop_clock or WallClock()).now_s,
            version=deployment.tree.version.id,
            place=place.store,
            peers=self._peers(place),
            looks_again=self.loop_clock is None,
        )
        trees = SessionTrees(self.trees.newest, [deployment.tree.version], self.trees)
        actor = session_actor(environment, place.name, place.shard, trees)
        actor.cache.max_bytes = self._cache_bytes
        return SessionRef(LocalLink(actor), settings.max_message_bytes)

    def _peers(self, place: SessionActorPlace) -> FindPeers | None:
        """Finds the other Session actors of a store."""
        # With the clock of a test each renewal would be a step.
        if place.shard.of == 1 or self.loop_clock is not None:
            return None

        async def find() -> Mapping[int, SessionRef]:
            return dict(enumerate(self.session.stores[place.store.number].shards))

        return find

    def _create_runner(self, shard: Shard) -> RunnerRef:
        deployment, settings = self._deployment, self._deployment.settings
        limits = settings.limits
        artifacts = open_artifact_store(deployment.artifact_store)
        directory = LocalDirectory(deployment.tree)
        environment = RunnerEnvironment(
            self.session,
            directory,
            artifacts,
            deployment.tree.plugins,
            limits,
            settings.store_timeout_s,
            telemetry=self._telemetry,
            version=deployment.tree.version.id,
            daily_budget=settings.daily_budget,
            turns_opened_at_once=least_opened(len(deployment.stores) * settings.session_shards, settings.runners),
        )
        trees = LocalTrees(self.trees, directory, deployment.tree)
        actor = runner_actor(environment, shard_name("runner", shard), deployment.app_name, shard, self.trees.newest, trees)
        runner = RunnerRef(LocalLink(actor), limits.max_message_bytes)
        clock = self.loop_clock or WallClock()
        directory.environment = AgentEnvironment(
            self.session,
            runner,
            artifacts,
            self._models.resolve,
            toolsets=OpenToolsets(),
            interceptors=interceptors(self._limiter_client),
            views=ViewMemory(self._cache_bytes),
            threads_left=self._threads_left,
            calls_waiting=self._models.waiting,
            process=OwnProcess(),
            clock=clock,
            means=all_means(self.session, self._mcp, FlowPlans(self._plans.find), clock),
            telemetry=self._telemetry,
        )
        return runner

    def _threads_left(self) -> int:
        return self._threads.left if self._threads is not None else 0

    def connections(self) -> None:
        """No message leaves this process."""

    async def mcp_servers(self) -> Mapping[str, Ref]:
        """Clients of the actors of MCP servers: see Engine."""
        return self._mcp_servers.started()

    async def deployment_events(self) -> Sequence[DeploymentEvent]:
        """The newest events of this process: see Engine."""
        return self._events.all()

    async def log_lines(self, turn: TurnKey) -> Sequence[LogLine]:
        """List what agents have logged in a turn, of the newest of this process: see Engine. Prints are not kept."""
        return self._lines.lines_of(turn)

    async def rejoin(self) -> None:
        """Nothing: the actors end with this program."""

    async def has_successor(self, error: Exception) -> bool:
        """False: the actors end with this program."""
        return False

    async def leave(self) -> None:
        """Stop the actors, which cannot outlive this process."""
        await self.stop()

    async def define(self, name: str, plan: FlowPlan, key: SessionKey) -> None:
        """Keep a flow's plan for all agents."""
        self._plans.add(name, plan)

    async def stop(self, *, leave_turns: bool = False) -> None:
        """Stop the actors: see Engine."""
        logging.getLogger(LOGGER).removeHandler(self._event_handler)
        logging.root.removeHandler(self._lines)
        if self.loop_clock is not None:
            self.loop_clock.thaw()
        await self.runner.stop(leave_turns=leave_turns)
        await self._mcp_servers.stop()
        await self.session.stop()
        if self._limiter_client is not None and self.limiter is not None:
            await self._limiter_client.close()
            await self.limiter.stop()
        await self._models.aclose()
        if self._watch is not None:
            self._watch.stop()
        if self._threads is not None:
            self._threads.end_idle()


class LocalLink:
    """A link to an actor in this process.

    As on Ray, messages are encoded, so that actors share no object by accident; and one that was sent is handled to its end, also
    when the sender waits for the reply no more.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._handling: set[asyncio.Task[bytes]] = set()

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        """Deliver a message and return the reply."""
        loop = asyncio.get_running_loop()
        before = EARLY_REPLY.set(None if early is None else lambda reply: loop.call_soon(early, reply))
        handling = loop.create_task(self._actor.receive(raw))
        EARLY_REPLY.reset(before)
        # The event loop itself holds tasks weakly.
        self._handling.add(handling)
        handling.add_done_callback(self._handling.discard)
        return await asyncio.shield(handling)


class LocalDirectory:
    """Implements `Directory`: activates the agents of one Runner in this process, and keeps them until it is closed.

    Attributes:
        obstacles: see AgentDirectory.
        environment: what the agents share. It names the Runner, whose actor needs this directory first, and so is set after it.
    """

    environment: AgentEnvironment

    def __init__(self, tree: AgentTree) -> None:
        self._tree = tree
        self._links: dict[Replica, LocalLink] = {}
        self._activations: Counter[Replica] = Counter()
        self._stopping: set[asyncio.Task[bytes]] = set()
        self.obstacles: Mapping[str, tuple[str, str]] = obstacles(model_checks(tree, distinct_models(tree)))

    async def link(self, agent: str, key: SessionKey, *, alone: bool = False) -> Link:
        """A link to the agent's actor, which is activated if need be. It serves all sessions, and lives in this process."""
        return self.link_in(self._tree, agent)

    def link_in(self, tree: AgentTree, agent: str, mark: str = "") -> Link:
        """A link to the actor of an agent of some tree. `mark`: see Replica."""
        replica = Replica(agent, mark=mark)
        link = self._links.get(replica)
        if link is None:
            link = self._links[replica] = LocalLink(agent_actor(tree.spec(agent), self.environment))
            self._activations[replica] += 1
        return link

    def drop_link(self, agent: str, link: Link) -> None:
        """Drop an agent's actor."""
        self._links = {replica: other for replica, other in self._links.items() if other is not link}

    def drop_unused(self, used: Sequence[MarkedVersion]) -> None:
        """Drop the actors that serve no agent of some versions."""
        unused = [replica for replica in self._links if not serves_any(used, replica.agent, replica.mark)]
        for replica in unused:
            stopping = asyncio.create_task(self._links.pop(replica).send(encode(Stop())))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    def live(self) -> Sequence[tuple[str, Link]]:
        """The active agents, by the names of their replicas."""
        return [(str(replica), link) for replica, link in self._links.items()]

    def counts(self) -> Mapping[str, int]:
        """Activations, and zero of what only happens in other processes."""
        return {
            "hosts": 0,
            "spares": 0,
            "starting": 0,
            "activations": self._activations.total(),
            "passivations": 0,
            "shared": 0,
            "replaced": 0,
            "lost": 0,
        }

    def losses(self) -> Mapping[str, int]:
        """None, as there are no other processes."""
        return {}

    def activations(self) -> Mapping[str, int]:
        """The number of times that each agent was activated."""
        return {str(replica): times for replica, times in self._activations.items()}

    def spare_pids(self) -> Sequence[int]:
        """None, as there are no other processes."""
        return ()

    async def close(self) -> None:
        """Stop every agent's actor."""
        for _, link in self.live():
            await link.send(encode(Stop()))
        self._links.clear()


class LocalTrees:
    """Implements `TreeSource` for one Runner.

    Args:
        first: the tree with which the deployment was started.
    """

    def __init__(self, versions: LocalVersions, directory: LocalDirectory, first: AgentTree) -> None:
        self._versions = versions
        self._directory = directory
        self._known = [MarkedVersion(first.version, {})]

    async def tree(self, version: str) -> RunnerTree:
        """A version that is kept. Raises ClusterError."""
        tree = self._versions.tree(version)
        leaders = {agent: group.leader for agent, group in tree.process_groups.items()}
        marks = marks_of(tree.version, self._known, leaders)
        self._known.append(MarkedVersion(tree.version, marks))
        return RunnerTree(tree.topology, _OfVersion(self._directory, tree, marks), tree.plugins)

    def retain(self, used: Collection[str], loaded: Collection[str]) -> None:
        """Drop the actors of versions that are not in use: see TreeSource."""
        self._directory.drop_unused([known for known in self._known if known.version.id in used])
        self._known = known_still(self._known, loaded)


class _OfVersion:
    """Implements `AgentDirectory` for the agents of a later version."""

    def __init__(self, directory: LocalDirectory, tree: AgentTree, marks: Marks) -> None:
        self._directory = directory
        self._tree = tree
        self._marks = marks
        self.obstacles: Mapping[str, tuple[str, str]] = obstacles(model_checks(tree, distinct_models(tree)))

    async def link(self, agent: str, key: SessionKey, *, alone: bool = False) -> Link:
        """A link to the agent's actor that serves a session: see Directory."""
        return self._directory.link_in(self._tree, agent, self._marks.get(agent, ""))

    def drop_link(self, agent: str, link: Link) -> None:
        """Drop an agent's actor."""
        self._directory.drop_link(agent, link)


class LocalVersions:
    """Implements `TreeKeeper` and `VersionSource`.

    Args:
        tree: with which the deployment is started.
        plans: takes those of the flows of later trees.

    Attributes:
        newest: the newest record.
    """

    def __init__(self, app_name: str, tree: AgentTree, plans: FlowRegistry[FlowPlan]) -> None:
        self._app_name = app_name
        self._plans = plans
        self._trees = {tree.version.id: tree}
        self.newest = first_record(tree.version, now_s())

    async def record(self) -> VersionRecord:
        """The newest record."""
        return self.newest

    async def version(self, version: str) -> TreeVersion:
        """A version by its name. Raises ClusterError when it is not kept."""
        return self.tree(version).version

    def tree(self, version: str) -> AgentTree:
        """The tree of a version. Raises ClusterError when it is not kept."""
        if version not in self._trees:
            raise ClusterError(f"version {version!r} of app {self._app_name!r} is not kept any more")
        return self._trees[version]

    async def keep_tree(self, tree: AgentTree) -> None:
        """Keep a tree."""
        self._trees.setdefault(tree.version.id, tree)
        for flow, plan in plans_of(tree).items():
            self._plans.add(flow, plan)

    async def keep_record(self, record: VersionRecord) -> None:
        """Keep a record, and no other trees than those in it. Raises UpdateConflictError."""
        if record.number != self.newest.number + 1:
            raise UpdateConflictError(self._app_name)
        self.newest = record
        self._trees = {version: tree for version, tree in self._trees.items() if version in record.ids}


class LocalMcpServers:
    """Starts the actors of MCP servers when they are first asked for, and stops them."""

    def __init__(self) -> None:
        self._started: dict[str, tuple[McpServer, Ref]] = {}

    async def find(self, server: McpServer) -> Ref:
        """A client of a server's actor. Raises DefinitionError when another server has the name."""
        known = self._started.get(server.name)
        if known is None:
            known = self._started[server.name] = server, Ref(LocalLink(McpActor(server, f"mcp/{server.name}")))
        server.check_same(known[0])
        return known[1]

    def started(self) -> Mapping[str, Ref]:
        """Clients of the actors that live, by the names of the servers."""
        return {name: ref for name, (_, ref) in self._started.items()}

    async def stop(self) -> None:
        """Stop all actors."""
        for _, ref in self._started.values():
            await ref.stop()
        self._started.clear()
