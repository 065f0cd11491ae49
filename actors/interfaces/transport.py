"""The seam between actors: how one reaches another, and how an agent's actor comes to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


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

    async def link(self, agent: str) -> Link:
        """A way to the agent's actor, which is started if it does not live."""
        ...

    def forget(self, agent: str, link: Link) -> None:
        """The agent's actor behind that link was found dead, or does not listen; the next `link` starts another.

        Somebody else may have found it before, and what lives now is another one already: that is left alone.
        """
        ...

    def live(self) -> Sequence[tuple[str, Link]]:
        """All agents that live now."""
        ...

    async def close(self) -> None:
        """Stop every agent's actor."""
        ...
