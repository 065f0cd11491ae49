"""What a session store may have besides whose commits are short enough for an event loop to wait for them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable


@runtime_checkable
class CommitsAtOnce(Protocol):
    """A store that may be used by any thread, by one at a time, and whose commits take well under a millisecond."""

    @property
    def commits_at_once(self) -> bool:
        """Whether the store is such a one as it is now: a connection that has to be made first takes longer."""
        ...

    def without_waiting(self) -> AbstractContextManager[None]:
        """In the block no call waits for a lock of another process: it raises StoreUnavailableError at once."""
        ...
