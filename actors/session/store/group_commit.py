"""Group commit: all writes that wait go into one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from actors.errors import SessionExistsError, StoreConflictError, StoreRevertedError, StoreUnavailableError
from actors.interfaces.stores import AddEvent, CreateSession, LogStore, PutState, PutTurn, Write
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.session import SessionKey

logger = logging.getLogger(__name__)


class _Removed:
    """Stands for the value of a key that a request removes."""


_REMOVED = _Removed()


class WriteRequest(msgspec.Struct, eq=False):
    """Writes of a session that are stored all or none. Two requests are never equal.

    Attributes:
        then: called once the writes are on disk.
        done: set after that, or to the error of the store.
        is_refused: it will never be on disk.
        shared: what it changes of states of users and of the app, while it is noted: their keys, the keys in them, the values.
    """

    key: SessionKey
    writes: Sequence[Write]
    then: Callable[[], None]
    done: asyncio.Future[None]
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


class GroupCommit:
    """Writes requests in the order in which they were submitted.

    While one transaction is under way, requests gather for the next. A request that cannot be written does not take other
    sessions with it; but later requests of its own session fail too, until `clear_failure`: a log has no holes.

    Args:
        commit: does all writes in one transaction. When it raises StoreUnavailableError it has waited for the store. After a
            StoreRevertedError the requests are written again, but for those that `loss` refuses.
        take_as_it_is: has the next `commit` write to a store that has gone back to an older copy of itself.

    Attributes:
        loss: says, once the store has gone back, why a session may not be written to; None: it may.
        commits: transactions so far.
        pending: what was submitted and is not known to be on disk.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Write]], Awaitable[None]],
        take_as_it_is: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._commit = commit
        self._take_as_it_is = take_as_it_is
        self._writing: asyncio.Task[None] | None = None
        self.loss: Callable[[SessionKey], Awaitable[Exception | None]] | None = None
        self._is_reverted = self._was_reverted = False
        self._waiting: list[WriteRequest] = []
        self._flushing: list[asyncio.Future[None]] = []
        self._failed: dict[SessionKey, Exception] = {}
        self.commits = 0
        self.pending = PendingWrites(self._failed.__contains__)

    def submit(self, key: SessionKey, writes: Sequence[Write], then: Callable[[], None] = lambda: None) -> asyncio.Future[None]:
        """Have `writes` of a session written, all or none.

        Args:
            then: called once they are on disk, before the future is done and before `then` of any later request.

        Returns:
            Done when they are on disk; with the store's error when they are not.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        request = WriteRequest(key, writes, then, done)
        self._waiting.append(request)
        self.pending.add(request)
        self._begin()
        return done

    def note_reverted(self) -> None:
        """The store has gone back to an older copy of itself: take it as it is before anything else is written."""
        self._is_reverted = True
        self._begin()

    def refuse(self, key: SessionKey, error: Exception) -> None:
        """Fail all requests of a session that are not on disk, and later ones until `clear_failure`."""
        self._failed.setdefault(key, error)
        for request in self.pending.of(key):
            self._fail(request, error)

    def clear_failure(self, key: SessionKey) -> None:
        """The session was read again from the store: it may write again."""
        self._failed.pop(key, None)

    async def flush(self) -> None:
        """Wait until all that was submitted so far is on disk, or never will be.

        What is submitted meanwhile is not waited for: under load there is always something.
        """
        if not self._is_writing:
            return
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushing.append(flushed)
        await flushed

    async def drain(self) -> None:
        """Wait until nothing waits to be written."""
        if self._writing is not None:
            # Awaited only through `wait`: the caller may be cancelled, the writer may not.
            await asyncio.wait([self._writing])

    @property
    def _is_writing(self) -> bool:
        # It may have ended before its first step: the end of an event loop cancels all tasks.
        return self._writing is not None and not self._writing.done()

    def _begin(self) -> None:
        """Have what waits be written, if that is not under way."""
        if not self._is_writing:
            self._writing = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._waiting or self._is_reverted or self._flushing:
            if self._is_reverted:
                await self._take_back()
            waiting, self._waiting = self._waiting, []
            flushing, self._flushing = self._flushing, []
            await self._write_waiting(waiting)
            if self._is_reverted:
                # Some of them are written again.
                self._flushing = [*flushing, *self._flushing]
                continue
            for flushed in flushing:
                if not flushed.done():
                    flushed.set_result(None)

    async def _write_waiting(self, waiting: Sequence[WriteRequest]) -> None:
        """Write what was waiting, in one transaction if that can be done."""
        if self._was_reverted:
            for request in waiting:
                await self._refuse_lost(request)
        failed = self._failed
        group = [request for request in waiting if not (request.is_refused or (failed and self._is_refused(request)))]
        if not group:
            return
        try:
            await self._write(group)
        except StoreRevertedError:
            self._is_reverted, self._waiting = True, [*group, *self._waiting]
        except StoreUnavailableError as error:
            # The store is down, so writing each request alone would fail too.
            for request in group:
                self._fail(request, error)
        except Exception:
            # Writing each request alone shows which of them cannot be written.
            for number, request in enumerate(group):
                if not await self._write_alone(request):
                    self._is_reverted, self._waiting = True, [*group[number:], *self._waiting]
                    break

    async def _write_alone(self, request: WriteRequest) -> bool:
        """Write one request. Returns False when it has to be written once more, since the store has gone back."""
        if not self._is_refused(request):
            try:
                await self._write([request])
            except StoreRevertedError:
                return False
            except Exception as error:
                # At once, so that none of them is written should the session be read again meanwhile.
                self.refuse(request.key, error)
        return True

    async def _take_back(self) -> None:
        self._is_reverted, self._was_reverted = False, True
        if self._take_as_it_is is None:
            return
        try:
            await self._take_as_it_is()
        except Exception as error:
            for request in self._waiting:
                self._fail(request, error)

    async def _refuse_lost(self, request: WriteRequest) -> None:
        """Refuse what is to be written to a session that has lost events."""
        if self.loss is None or self._is_refused(request):
            return
        try:
            error = await self.loss(request.key)
        except Exception as failure:
            error = failure
        if error is not None:
            self.refuse(request.key, error)

    def _is_refused(self, request: WriteRequest) -> bool:
        """True when the request fails because an earlier one of its session has failed."""
        if request.is_refused:
            return True
        error = self._failed.get(request.key)
        if error is not None:
            self._fail(request, error)
        return error is not None

    def _fail(self, request: WriteRequest, error: Exception) -> None:
        self._failed.setdefault(request.key, error)
        request.is_refused = True
        self.pending.discard(request)
        if not request.done.done():
            request.done.set_exception(error)

    async def _write(self, group: Sequence[WriteRequest]) -> None:
        await self._commit([write for request in group for write in request.writes])
        self.commits += 1
        for request in group:
            request.then()
            self.pending.discard(request)
            if not request.done.done():
                request.done.set_result(None)


class Transaction:
    """Writes that are stored all or none, and once, however often it is called until it succeeds, and by two processes, too.

    Writing a record or a state again does no harm; but an event that is stored already is in conflict with itself, by its
    position and its id. That happens in two ways:

    - A connection that breaks during a commit leaves open whether it was done.
    - In a store that does not fence writers, the process that this one has replaced lived on for a moment, with the same message,
      and has stored it after this one had read the log. What it wrote beside the events may be of another epoch, so that is
      written again.
    """

    def __init__(self, store: LogStore, writes: Sequence[Write]) -> None:
        self._store = store
        self._writes = writes

    def __call__(self) -> None:
        """Store them, in the store's thread. Raises what `LogStore.commit` raises."""
        try:
            self._store.commit(self._writes)
        except (StoreConflictError, SessionExistsError):
            if not is_stored(self._store, self._writes):
                raise
            self._store.commit([write for write in self._writes if isinstance(write, PutState | PutTurn)])


def is_stored(store: LogStore, writes: Sequence[Write]) -> bool:
    """True when these writes were stored together, and nothing after them: new sessions are there, events end their logs.

    Writes without events and new sessions have nothing by which they can be known: True, too.
    """
    logs: dict[SessionKey, list[tuple[int, bytes]]] = {}
    for write in writes:
        if isinstance(write, AddEvent):
            logs.setdefault(write.key, []).append((write.row.seq, write.row.raw))
    created = (write for write in writes if isinstance(write, CreateSession))
    return all(_is_created(store, write) for write in created) and all(
        store.events(key, after_seq=events[0][0] - 1, limit=len(events) + 1) == events for key, events in logs.items()
    )


def _is_created(store: LogStore, write: CreateSession) -> bool:
    found = store.session(write.key)
    return found is not None and found.created_s == write.created_s
