"""The seam between actors: how one reaches another, and how an agent's actor comes to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Link(Protocol):
    """A way to one actor."""

    async def send(self, raw: bytes) -> bytes:
        """Deliver an encoded message and return the encoded reply.

        Raises:
            ActorLostError: the actor's process is gone, or went before it replied.
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

    def forget(self, agent: str) -> None:
        """The agent's actor was found dead; the next `link` starts another."""
        ...

    def live(self) -> Sequence[tuple[str, Link]]:
        """All agents that live now."""
        ...

    async def close(self) -> None:
        """Stop every agent's actor."""
        ...
