"""Where a commit is made: in the store's thread, or at once on the event loop, which then waits for it. No clock, no effects.

A commit to a local file takes a fraction of a millisecond. To hand it to a thread and to be told of its end takes two changes of
threads, and where the machine is busy the thread waits for a core as well: for a single session that is a sixth of a turn. With
many sessions the thread is worth it, since the event loop has other work while it waits for the disk.

- A commit may be made at once when several before it were small and quick, wherever these were made.
- A slow one, as one that moves SQLite's write-ahead log into its file, takes several quick ones to make up for.
- After a large one, which many sessions share, or one that takes very long, all begins again.
"""

from __future__ import annotations

SMALL = 6
"""Writes of a small commit, at most: as many as two turns have that begin or end together."""

QUICK_S = 0.002
"""Seconds that a quick commit takes, at most."""

SLOW_S = 0.025
"""Seconds after which an event loop must not wait for the next commits, however quick those before were."""

ENOUGH = 16
"""So many quick commits in a row make up for everything that was before."""

COST = 8
"""So many of them make up for a slow one."""


class LoneCommits:
    """Knows how the last commits were, and decides of the next one."""

    def __init__(self) -> None:
        self._quick = 0

    @property
    def may_be_at_once(self) -> bool:
        """Whether the event loop may wait for the next commit."""
        return self._quick >= COST

    def note(self, writes: int, took_s: float) -> None:
        """A commit of so many writes has taken so long, its way to the thread and back included."""
        if writes > SMALL or took_s > SLOW_S:
            self._quick = 0
        elif took_s > QUICK_S:
            self._quick = max(self._quick - COST, 0)
        else:
            self._quick = min(self._quick + 1, ENOUGH)
