"""What runs reach besides the log: artifacts, memory, places with resources that tools need, and means of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from actors.messages.background import Background, BackgroundRun
from actors.messages.config import RunConfig
from actors.messages.content import Content, Part, Received
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey

T = TypeVar("T")


class ArtifactAccess(Protocol):
    """The artifacts of one session."""

    async def save(self, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        ...

    async def load(self, filename: str, version: int | None = None) -> Part | None:
        """Return the part of a version, or of the latest one; None if there is none."""
        ...

    async def keys(self) -> list[str]:
        """Return the names of all artifacts that the session sees, sorted."""
        ...


class MemoryAccess(Protocol):
    """The memory of one user, for the runs of one session."""

    async def add_session(self) -> None:
        """Remember what was said in the session so far, in place of earlier. Raises NoMemoryError, StoreError."""
        ...

    async def search(self, query: str) -> list[MemoryEntry]:
        """Return entries that share a word with the query, best match first, at most 10. Raises NoMemoryError, StoreError."""
        ...


class Inbox(Protocol):
    """Messages to a run: those of the user to its turn, and those that other agents have sent to its agent."""

    async def read(self) -> Sequence[Received]:
        """Append all messages that wait to the log, as read by this agent, and return them, the oldest first.

        Raises:
            FencedError: the turn was taken over or has ended.
            StoreError: they could not be read, and wait.
        """
        ...

    async def wait(self) -> Sequence[Received]:
        """Wait until messages come, and read all of them. Raises as `read` does."""
        ...

    async def next_message(self) -> Received:
        """Wait for a message, and read it. Raises as `read` does."""
        ...

    async def send(self, agent: str, content: Content, message_id: str) -> None:
        """Send another agent a message.

        Args:
            message_id: the same when it is sent again.

        Raises:
            UnknownAgentError: there is no such agent.
            OverloadedError: as many messages wait for it as may.
            FencedError: the turn was taken over or has ended.
            StoreError: it could not be stored.
        """
        ...


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a background run.

    Attributes:
        id: of the run: 16 hexadecimal digits; the same when it is started again after a loss.
        agent, started_by: the agent that is to run, and the one that starts it.
        content: what it is asked.
        options: how it runs.
        invocation_id, config: the turn that starts it, and its options.
    """

    id: str
    agent: str
    started_by: str
    content: Content
    options: Background
    invocation_id: str
    config: RunConfig


class BackgroundAccess(Protocol):
    """The background runs of one session."""

    async def start(self, start: Start) -> BackgroundRun:
        """Start a run, or return it if it was started before.

        Raises:
            UnknownAgentError: there is no such agent.
            TooManyRunsError: as many are under way as may.
            FencedError: the turn has ended.
            StoreError: it could not be stored.
        """
        ...

    async def steer(self, run: str, message: Content, message_id: str) -> BackgroundRun:
        """Leave a message for a run. Raises RunNotFoundError, RequestError, StoreError.

        Args:
            message_id: the same when it is left again.
        """
        ...

    async def cancel(self, run: str) -> BackgroundRun:
        """Have a run cancelled, and those that it has started. Raises RunNotFoundError, StoreError."""
        ...


class Offload(Protocol):
    """Runs tools that need more resources than their agent's process has."""

    async def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any], needs: Mapping[str, Any]) -> Any:
        """Call a function, sync or async, away from the agent's event loop, and return its result.

        Args:
            needs: resources by the names num_cpus, num_gpus, memory and resources.

        Raises:
            Exception: what the function raises.
        """
        ...


Means = Mapping[type[Any], Callable[[SessionKey], Any]]
"""What features reach in a process, by its class; each is made for the session of a run."""


class Reach(Protocol):
    """Gives the tools of features what they need besides the log."""

    def __call__(self, kind: type[T]) -> T | None:
        """Return the object of this class for the session; None where there is none."""
        ...
