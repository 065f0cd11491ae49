"""Requests to write that are not on disk yet: by session, and by what they change of the states that sessions share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from actors.interfaces.records import PutState, Write
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.session import SessionKey


class _Removed:
    """Stands for the value of a key that a request removes."""


_REMOVED = _Removed()


Tell = Callable[[Exception | None], None]
"""Takes what has become of a request: the error of the store; None when all of it is on disk."""


class WriteRequest(msgspec.Struct, eq=False):
    """Writes of a session that are stored all or none. Two requests are never equal.

    Attributes:
        then: called once the writes are on disk.
        tell: called after that, or with the error of the store; None when it was.
        done: for those that wait for it: set after `then`, or to the error of the store; None while none does.
        is_refused: it will never be on disk.
        shared: what it changes of states of users and of the app, while it is noted: their keys, the keys in them, the values.
    """

    key: SessionKey
    writes: Sequence[Write]
    then: Callable[[], None]
    tell: Tell | None = None
    done: asyncio.Future[None] | None = None
    is_refused: bool = False
    shared: Sequence[tuple[SessionKey, str, JsonValue | _Removed]] = ()


_Changes = dict[WriteRequest, "JsonValue | _Removed"]
"""What requests make of one key, the oldest request first."""


class PendingWrites:
    """Finds requests without looking at those of other sessions: thousands of sessions may have one each.

    Args:
        is_refused: says of a session that its requests will never be on disk.
    """

    def __init__(self, is_refused: Callable[[SessionKey], bool]) -> None:
        self._is_refused = is_refused
        self._by_session: dict[SessionKey, dict[WriteRequest, None]] = {}
        self._shared: dict[SessionKey, dict[str, _Changes]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_session.values()))

    def add(self, request: WriteRequest) -> None:
        """Note a request, after all earlier ones."""
        of_session = self._by_session.get(request.key)
        if of_session is None:
            self._by_session[request.key] = {request: None}
        else:
            of_session[request] = None
        for write in request.writes:
            if type(write) is PutState:
                request.shared = list(_shared_changes(request))
                break
        for scope, name, value in request.shared:
            self._shared.setdefault(scope, {}).setdefault(name, {})[request] = value

    def discard(self, request: WriteRequest) -> None:
        """Forget a request: it is on disk, or will never be."""
        of_session = self._by_session.get(request.key)
        if of_session is not None:
            of_session.pop(request, None)
            if not of_session:
                del self._by_session[request.key]
        for scope, name, _ in request.shared:
            if (names := self._shared.get(scope)) is not None:
                changes = names.get(name, {})
                changes.pop(request, None)
                if not changes:
                    names.pop(name, None)
                if not names:
                    del self._shared[scope]

    def of(self, key: SessionKey) -> list[WriteRequest]:
        """The requests of a session, the oldest first."""
        return list(self._by_session.get(key, ()))

    def next_of(self, key: SessionKey) -> asyncio.Future[None] | None:
        """The future of a session's first request that is still waited for; None if there is none."""
        for request in self._by_session.get(key, ()):
            if request.done is None:
                request.done = asyncio.get_running_loop().create_future()
            if not request.done.done():
                return request.done
        return None

    def bring_up_to_date(self, scope: SessionKey, state: JsonObject) -> None:
        """Change a state of a user or of the app, as it was read, into what it is with the requests noted here.

        The cost grows with the keys of this state that are about to change, and with nothing else.
        """
        for name, changes in self._shared.get(scope, {}).items():
            for request in reversed(changes):
                if self._is_refused(request.key):
                    continue
                value = changes[request]
                if isinstance(value, _Removed):
                    state.pop(name, None)
                else:
                    state[name] = value
                break


def _shared_changes(request: WriteRequest) -> Iterator[tuple[SessionKey, str, JsonValue | _Removed]]:
    """The keys that a request changes in states of users and of the app."""
    for write in request.writes:
        if isinstance(write, PutState) and not write.key.session:
            for name, value in write.values.items():
                yield write.key, name, value
            for name in write.removed:
                yield write.key, name, _REMOVED
