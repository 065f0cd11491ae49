"""The seam between actors: how one sends to another, and how the Runner finds the actors of agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from actors.messages.session import SessionKey

EarlyReply = Callable[[bytes], object]
"""Takes an encoded reply that comes before the last one."""

EARLY_REPLY: ContextVar[EarlyReply | None] = ContextVar("EARLY_REPLY", default=None)
"""Set while an actor handles a message whose sender can take a reply before the last one; None where none can be sent."""


class Link(Protocol):
    """A way to one actor."""

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        """Deliver an encoded message and return the encoded reply.

        An actor that is restarted when its process is lost gets the message again, so it may arrive twice.

        Args:
            once: do not send it again.
            early: called on the event loop with each reply that the actor sends before the last one. A link need not bring any,
                and one that was sent may be lost: the last reply says everything once more.

        Raises:
            ActorLostError: the actor's process is gone, or went before it replied.
            ActorRestartsError: the same, and the actor is being restarted; only with `once`.
        """
        ...


class HostLimit(NamedTuple):
    """How many processes with agents there may be, and the reason, as a part of a sentence."""

    hosts: int
    reason: str


class AgentDirectory(Protocol):
    """Finds the actors of the agents of one tree for the Runner, and activates them.

    Attributes:
        obstacles: why agents cannot run here at all, for example without an API key: their model and the reason, by agent.
    """

    obstacles: Mapping[str, tuple[str, str]]

    async def link(self, agent: str, key: SessionKey, *, alone: bool = False) -> Link:
        """Return a way to the agent's actor, activating it if needed; of several replicas, to the one that serves the session.

        Send the first message at once, before anything else is awaited: until then the actor does not count as used.

        Args:
            alone: to an actor of its own in a process of its own, where the engine has processes. It ends after one message.

        Raises:
            ActorLostError: its process was lost as soon as it was started.
            ClusterError: it cannot be started; a PlacementError says that no node has room for it.
        """
        ...

    def drop_link(self, agent: str, link: Link) -> None:
        """End the process of an actor that is dead or does not respond; the next `link` activates another.

        Other agents in that process are ended with it. If the actor was replaced already, nothing happens.
        """
        ...


class Directory(AgentDirectory, Protocol):
    """Finds the actors of the tree with which a deployment was started, and has the figures of all agents' actors."""

    def live(self) -> Sequence[tuple[str, Link]]:
        """Return all active agents, and ways to them that do not count as use.

        Of several replicas all but the first have a number after their name: `agent/1`, `agent/2` … The actors of an agent that
        was changed by an update have the name of the version behind theirs: `agent@6b1f02ac`.
        """
        ...

    def counts(self) -> Mapping[str, int]:
        """Return figures of processes and agents.

        `hosts`: processes with agents in them; `spares`: processes that stand ready; `starting`: those that start or wait for a
        node; `activations`: how often an agent was activated; `passivations`: how often one was passivated because it was idle;
        `shared`: how often one was activated in the process of another because there were enough processes; `replaced`: how many
        processes were worn out by code that does not come back.
        """
        ...

    def losses(self) -> Mapping[str, int]:
        """Return how often the process was lost in which an agent lived, by the names that `live` has; of others nothing."""
        ...

    def activations(self) -> Mapping[str, int]:
        """Return how often each agent was activated, by the names that `live` has; those that live no more included."""
        ...

    def spare_pids(self) -> Sequence[int]:
        """Return the process ids of the spares."""
        ...

    async def close(self) -> None:
        """Stop all agents' actors."""
        ...
