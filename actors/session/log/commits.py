"""What logs write to the store, together with the session itself where that is new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from actors.errors import SessionExistsError, StoreConflictError
from actors.interfaces.records import CreateSession, PutState, Write
from actors.messages.session import SessionKey
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedStates
from actors.session.store.group_commit import GroupCommit


class LogCommits:
    """Writes changes of logs. When one cannot be stored, memory is ahead of the store, and the log is read again.

    Args:
        commits: take what all logs write.
        shared: the states that sessions share.
        keep: puts the log of a session that is being created into memory.
        evict: takes one out of it whose session could not be created.

    Attributes:
        creating: of sessions that are being created; done when that is over.
    """

    def __init__(
        self,
        commits: GroupCommit,
        shared: SharedStates,
        keep: Callable[[SessionLog], None],
        evict: Callable[[SessionKey], None],
    ) -> None:
        self._commits = commits
        self._shared = shared
        self._keep = keep
        self._evict = evict
        self.creating: dict[SessionKey, asyncio.Future[None]] = {}

    def write(self, log: SessionLog, writes: Sequence[Write], then: Callable[[], None] = lambda: None) -> Awaitable[None]:
        """Write changes of a log, all or none, with the session itself if that is new. It has to be awaited.

        Args:
            then: called once they are on disk.

        Raises:
            StoreError: nothing is stored.
        """
        if log.creation is not None:
            return self.create(log, log.creation, writes, then)
        return self._write(log, writes, then)

    async def create(
        self,
        log: SessionLog,
        creation: CreateSession,
        writes: Sequence[Write],
        then: Callable[[], None] = lambda: None,
        *,
        may_exist: bool = False,
    ) -> None:
        """Write the first changes of a log, and with them its session. Raises what `write` raises.

        Args:
            may_exist: SessionExistsError is raised as it is: the caller has asked for the session, and for nothing else.
        """
        key = log.key
        log.creation = None
        self._commits.clear_failure(key)
        over = self.creating[key] = asyncio.get_running_loop().create_future()
        self._keep(log)
        try:
            await self._write(log, [creation, *writes], then, may_exist=may_exist)
        except Exception:
            # Whether there is such a session, and which, only the store can tell.
            self._evict(key)
            raise
        finally:
            del self.creating[key]
            over.set_result(None)

    async def _write(
        self, log: SessionLog, writes: Sequence[Write], then: Callable[[], None], *, may_exist: bool = False
    ) -> None:
        log.unwritten += 1
        try:
            await self._commits.submit(log.key, writes, then)
        except Exception as error:
            # The log is loaded again when it is used next, what it shares with others at once.
            log.mark_stale()
            if any(isinstance(write, PutState) and not write.key.session for write in writes):
                await self._shared.reread(log.key)
            if may_exist or not isinstance(error, SessionExistsError):
                raise
            raise _created_meanwhile(log) from error
        finally:
            log.unwritten -= 1

    async def opened(self, log: SessionLog) -> None:
        """Wait until the message that opened the session's turn is on disk. Raises StoreError when it cannot be stored."""
        # Not longer: what is written behind the message may end the turn.
        while log.is_opening and (written := self._commits.pending.next_of(log.key)) is not None:
            # Who waits may be cancelled, the write may not.
            await asyncio.shield(written)


def _created_meanwhile(log: SessionLog) -> StoreConflictError:
    """The error of what is written with a session that is to be created, and that is there."""
    # It was not there a moment ago, so another deployment has created it, and serves it.
    return StoreConflictError(log.key.session, "it was created at the same time")
