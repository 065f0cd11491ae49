"""The agents that live on the local engine, in this process, and the versions of the tree that they are of."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from actors.actor import Actor
from actors.agent.environment import AgentEnvironment
from actors.interfaces.transport import EARLY_REPLY, EarlyReply, Link
from actors.layers.kinds import agent_actor
from actors.layers.trees.process_groups import Replica, replica_for
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.environment import RunnerTree
from actors.layers.updates.rules.marks import MarkedVersion, Marks, known_still, marks_of, serves_any
from actors.messages.codec import encode
from actors.messages.protocol.lifecycle import Stop
from actors.messages.session import SessionKey
from runtime.engine.deployment import distinct_models, model_checks, obstacles
from runtime.engine.local_versions import LocalVersions


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
        """A link to the agent's actor that serves a session, which is activated if need be. All live in this process."""
        return self.link_in(self._tree, agent, key)

    def link_in(self, tree: AgentTree, agent: str, key: SessionKey, mark: str = "") -> Link:
        """A link to the actor of an agent of some tree. `mark`: see Replica."""
        replica = replica_for(tree.process_groups, agent, key, mark)
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
        return self._directory.link_in(self._tree, agent, key, self._marks.get(agent, ""))

    def drop_link(self, agent: str, link: Link) -> None:
        """Drop an agent's actor."""
        self._directory.drop_link(agent, link)
