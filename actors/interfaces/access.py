"""What the code of a run reaches: its session and log, artifacts, memory, messages, background runs, and means of features."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Never, Protocol, TypeVar

import msgspec

from actors.errors import RequestError
from actors.interfaces.stores import ArtifactStore
from actors.messages.config import Background, RunConfig
from actors.messages.content import Content, Part, Received
from actors.messages.event import Event
from actors.messages.json_types import JsonMapping, JsonValue
from actors.messages.session import MemoryEntry, SessionKey
from actors.messages.turn_info import BackgroundRun
from actors.rules.checks.ids import checked_artifact_name

T = TypeVar("T")


class ArtifactAccess:
    """The artifacts of one session. The store blocks, so it is called in a thread."""

    def __init__(self, store: ArtifactStore, key: SessionKey) -> None:
        self._store = store
        self._key = key

    async def save(self, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        return await asyncio.to_thread(self._store.save, self._key, checked_artifact_name(filename), part)

    async def load(self, filename: str, version: int | None = None) -> Part | None:
        """Return the part of a version, or of the latest one; None if there is none."""
        return await asyncio.to_thread(self._store.load, self._key, checked_artifact_name(filename), version)

    async def keys(self) -> list[str]:
        """Return the names of all artifacts that the session sees, sorted."""
        return await asyncio.to_thread(self._store.keys, self._key)


class LogAccess:
    """The log of one session.

    Args:
        read: reads its events, on the event loop that is running now.

    Attributes:
        key: the session.
    """

    def __init__(self, key: SessionKey, read: Callable[[], Coroutine[Any, Any, Sequence[Event]]]) -> None:
        self.key = key
        self._read = read
        self._loop = asyncio.get_running_loop()

    async def read(self) -> Sequence[Event]:
        """Return the events that are stored by now, oldest first. Raises StoreError."""
        return await self._read()

    def read_in_thread(self) -> Sequence[Event]:
        """Return the same in a thread, which may have a loop. Raises RequestError on this loop, which would wait for itself."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not self._loop:
            return asyncio.run_coroutine_threadsafe(self._read(), self._loop).result()
        raise RequestError("async code reads the events of a session first: await context.session.read_events()")


class SessionState(Mapping[str, JsonValue]):
    """The state of a session, to look at. It is written by `context.state`."""

    def __init__(self, read: Callable[[], JsonMapping]) -> None:
        self._read = read

    def __getitem__(self, key: str) -> JsonValue:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(dict(self))

    def __setitem__(self, key: str, value: object) -> Never:
        raise TypeError(f"context.session.state is for reading, and nothing would be stored: write context.state[{key!r}]")


class RunSession:
    """The session that a run belongs to, to look at: `context.session`.

    Nothing is read before `events` is looked at. Sync functions run in threads, so they wait for the events; async code calls
    `read_events` first. The events are those of all agents and branches, as they were when they were read.

    Args:
        log: reads the events.
        state: returns the run's state.

    Attributes:
        id: the session's.
        app_name: the app's.
        user_id: the user's.
        state: the state by prefixed keys, with what this code has written.
    """

    def __init__(self, log: LogAccess, state: Callable[[], JsonMapping]) -> None:
        self.app_name, self.user_id, self.id = log.key.app, log.key.user, log.key.session
        self.state = SessionState(state)
        self._log = log
        self._events: Sequence[Event] | None = None

    @property
    def events(self) -> Sequence[Event]:
        """The session's events, oldest first. Raises RequestError in async code that has not called `read_events`."""
        if self._events is None:
            self._events = self._log.read_in_thread()
        return self._events

    async def read_events(self) -> Sequence[Event]:
        """Read the session's events that are stored by now; from then on `events` are these. Raises StoreError."""
        self._events = await self._log.read()
        return self._events


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
