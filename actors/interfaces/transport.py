"""The seam between actors: how one reaches another, and how an agent's actor comes to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from actors.messages.session import SessionKey


class Link(Protocol):
    """A way to one actor."""

    async def send(self, raw: bytes, *, once: bool = False) -> bytes:
        """Deliver an encoded message and return the encoded reply.

        To an actor that is started again when its process is lost, the message is sent again, too: it may arrive twice.

        Args:
            once: do not send it again.

        Raises:
            ActorLostError: the actor's process is gone, or went before it replied.
            ActorRestartsError: the same, and it is being started again; only with `once`.
        """
        ...


class Directory(Protocol):
    """Who makes agents' actors live. Only the Runner asks it.

    Attributes:
        obstacles: what keeps an agent from running at all here, such as a missing API key: its model and the reason, by agent.
    """

    obstacles: Mapping[str, tuple[str, str]]

    async def link(self, agent: str, key: SessionKey) -> Link:
        """A way to the agent's actor, which is made to live if it does not. Of several replicas, that which serves the session.

        The first message has to be sent with it at once, before anything else is awaited: until then the actor is not in use.

        Raises:
            ActorLostError: its process was lost as soon as it was started.
            ClusterError: it cannot be started; a PlacementError says that no node has room for it.
        """
        ...

    def forget(self, agent: str, link: Link) -> None:
        """The agent's actor behind that link was found dead, or does not listen; the next `link` leads to another.

        Whoever lives in the same process is gone with it.

        Somebody else may have found it before, and what lives now is another one already: that is left alone.
        """
        ...

    def live(self) -> Sequence[tuple[str, Link]]:
        """All agents that live now, and ways to them that do not count as use.

        Of several replicas all but the first have a number behind their name: `agent/1`, `agent/2` …
        """
        ...

    def counts(self) -> Mapping[str, int]:
        """How many processes there are with agents in them (`hosts`), and how many that stand ready for some (`spares`).

        And how often an agent has begun to live (`activations`), has been put to sleep because it was idle (`passivations`), and
        has moved in with another because there were enough processes (`shared`).
        """
        ...

    def spare_pids(self) -> Sequence[int]:
        """The process ids of spares."""
        ...

    async def close(self) -> None:
        """Stop every agent's actor."""
        ...
