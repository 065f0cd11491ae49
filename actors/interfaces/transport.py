"""The seam between actors: how one reaches another, and how an agent's actor comes to be."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Who makes agents' actors live. Only the Runner asks it."""

    async def link(self, agent: str) -> Link:
        """A way to the agent's actor, which is started if it does not live."""
        ...

    def forget(self, agent: str) -> None:
        """The agent's actor was found dead; the next `link` starts another."""
        ...

    def live(self) -> Sequence[tuple[str, Link]]:
        """All agents that live now."""
        ...

    def obstacle(self, agent: str) -> str | None:
        """What keeps the agent from running at all here, such as a missing API key; None when nothing does."""
        ...

    async def close(self) -> None:
        """Stop every agent's actor."""
        ...
