"""The session of a run, as user code looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Never, Protocol

from actors.messages.event import Event
from actors.messages.json_types import JsonMapping, JsonValue
from actors.messages.session import SessionKey


class LogAccess(Protocol):
    """The log of one session.

    Attributes:
        key: the session.
    """

    key: SessionKey

    async def read(self) -> Sequence[Event]:
        """Return the events that are stored by now, oldest first. Raises StoreError."""
        ...

    def read_in_thread(self) -> Sequence[Event]:
        """Return the same in a thread. Raises RequestError on the event loop, which would wait for itself."""
        ...


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
