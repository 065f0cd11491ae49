"""Group commit: all writes that wait go into one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from actors.errors import SessionExistsError, StoreConflictError, StoreUnavailableError
from actors.interfaces.records import AddEvent, CreateSession, PutState, PutTurn, Write
from actors.interfaces.stores import SessionStore
from actors.messages.session import SessionKey
from actors.session.store.pending_writes import PendingWrites, WriteRequest


class GroupCommit:
    """Writes requests in the order in which they were submitted.

    While one transaction is under way, requests gather for the next. A request that cannot be written does not take other
    sessions with it; but later requests of its own session fail too, until `clear_failure`: a log has no holes.

    Args:
        commit: does all writes in one transaction. When it raises StoreUnavailableError it has waited for the store.

    Attributes:
        commits: transactions so far.
        pending: what was submitted and is not known to be on disk.
    """

    def __init__(self, commit: Callable[[Sequence[Write]], Awaitable[None]]) -> None:
        self._commit = commit
        self._waiting: list[WriteRequest] = []
        self._writer: asyncio.Task[None] | None = None
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
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        return done

    def clear_failure(self, key: SessionKey) -> None:
        """The session was read again from the store: it may write again."""
        self._failed.pop(key, None)

    async def flush(self) -> None:
        """Wait until nothing waits to be written."""
        if self._writer is not None:
            # Awaited only through `wait`: the caller may be cancelled, the writer may not.
            await asyncio.wait([self._writer])

    async def _write_all(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            group = [request for request in waiting if not self._is_refused(request)]
            if not group:
                continue
            try:
                await self._write(group)
            except StoreUnavailableError as error:
                # The store is down, so writing each request alone would fail too.
                for request in group:
                    self._fail(request, error)
            except Exception:
                # Writing each request alone shows which of them cannot be written.
                for request in group:
                    await self._write_alone(request)

    async def _write_alone(self, request: WriteRequest) -> None:
        if not self._is_refused(request):
            try:
                await self._write([request])
            except Exception as error:
                self._fail(request, error)

    def _is_refused(self, request: WriteRequest) -> bool:
        """True when the request fails because an earlier one of its session has failed."""
        error = self._failed.get(request.key)
        if error is not None:
            self._fail(request, error)
        return error is not None

    def _fail(self, request: WriteRequest, error: Exception) -> None:
        self._failed.setdefault(request.key, error)
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

    def __init__(self, store: SessionStore, writes: Sequence[Write]) -> None:
        self._store = store
        self._writes = writes

    def __call__(self) -> None:
        """Store them, in the store's thread. Raises what `SessionStore.commit` raises."""
        try:
            self._store.commit(self._writes)
        except (StoreConflictError, SessionExistsError):
            if not is_stored(self._store, self._writes):
                raise
            self._store.commit([write for write in self._writes if isinstance(write, PutState | PutTurn)])


def is_stored(store: SessionStore, writes: Sequence[Write]) -> bool:
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


def _is_created(store: SessionStore, write: CreateSession) -> bool:
    found = store.session(write.key)
    return found is not None and found.created_s == write.created_s
