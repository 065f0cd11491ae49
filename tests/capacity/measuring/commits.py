"""What a commit to SQLite waits for, taken from real turns: their writes are recorded, and committed again by one thread alone.

A wait is what is left of a commit's time without the thread's CPU, and without its time in the kernel's line of threads that want
a core. So other programs make it longer only by what they write to the same disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from unittest.mock import patch

import msgspec

from actors.interfaces.stores import PutTurn, Write
from actors.messages.session import SessionKey
from runtime.stores.sql.sessions import SqlSessionStore
from tests.benchmarks.plan import TINY
from tests.benchmarks.throughput import talk
from tests.benchmarks.workloads import instant_agent, run_load, runtime, store_url
from tests.capacity.unit_costs import LOG_PAGES, CommitCosts
from tests.support.machine.process_use import scheduled_s

SESSIONS = 64
"""Whose turns are recorded: the writes of all of them are the largest group."""
_TURNS = 12
_MX_FRAME = slice(16, 20)
"""Of the index of the write-ahead log: the number of its last page. https://www.sqlite.org/walformat.html"""


class Commit(msgspec.Struct, frozen=True):
    """One commit.

    Attributes:
        cpu_ms: of the thread.
        waited_ms: for the disk.
        pages: of the write-ahead log, when it had ended.
        more_pages: than before.
    """

    cpu_ms: float
    waited_ms: float
    pages: int
    more_pages: int

    @property
    def is_checkpoint(self) -> bool:
        """True when it has also written the log's pages into the database."""
        return self.pages >= LOG_PAGES


def commit_costs(sessions: int = SESSIONS, turns: int = _TURNS) -> CommitCosts:
    """Measure on this machine, in a few seconds."""
    written = recorded_writes(sessions, turns)
    few, many = (committed(written, group) for group in (1, sessions))
    return taken_from(few, many, sessions)


def recorded_writes(sessions: int, turns: int) -> list[list[list[Write]]]:
    """What turns write, by session: the user's message, the answer, and so on, each to be stored all or none."""
    found: dict[SessionKey, list[list[Write]]] = {}
    commit = SqlSessionStore.commit

    def noting(store: SqlSessionStore, writes: Sequence[Write]) -> None:
        for write in writes:
            parts = found.setdefault(write.key, [[]])
            parts[-1].append(write)
            # Each of the two ends with the record of the turn.
            if isinstance(write, PutTurn):
                parts.append([])
        commit(store, writes)

    async def run(folder: Path) -> None:
        async with runtime(TINY, instant_agent(), folder) as rt:
            await run_load(talk(rt), sessions=sessions, turns=sessions * turns)

    with TemporaryDirectory() as folder, patch.object(SqlSessionStore, "commit", noting):
        asyncio.run(run(Path(folder)))
    return [parts[:-1] for parts in found.values()]


def committed(written: Sequence[Sequence[Sequence[Write]]], group: int) -> list[Commit]:
    """Commit them to a new store, those of so many sessions in each commit. Returns all but the commits that begin sessions."""
    done: list[Commit] = []
    with TemporaryDirectory() as folder:
        store = SqlSessionStore(store_url(Path(folder)))
        store.open()
        log = Path(folder) / "sessions.db-shm"
        try:
            for first in range(0, len(written) - group + 1, group):
                for number, parts in enumerate(zip(*written[first : first + group], strict=True)):
                    commit = _commit(store, [write for part in parts for write in part], log)
                    if number:
                        done.append(commit)
        finally:
            store.close()
    return done


def taken_from(few: Sequence[Commit], many: Sequence[Commit], group: int) -> CommitCosts:
    """The costs that follow from commits of one write each, and of so many."""
    plain, checkpoints = [each for each in few if not each.is_checkpoint], [each for each in [*few, *many] if each.is_checkpoint]
    flush_ms, cpu_ms = median(each.waited_ms for each in plain), median(each.cpu_ms for each in plain)
    pages = median(each.more_pages for each in plain)
    of_many = [each for each in many if not each.is_checkpoint]
    more_ms = median(each.waited_ms for each in of_many) - flush_ms
    more_pages = median(each.more_pages for each in of_many if each.more_pages > 0) - pages
    return CommitCosts(
        flush_ms=round(flush_ms, 4),
        flush_write_ms=round(max(0.0, more_ms / (group - 1)), 5),
        pages=round(pages, 2),
        write_pages=round(max(0.0, more_pages / (group - 1)), 3),
        checkpoint_cpu_ms=round(max(0.0, median(each.cpu_ms for each in checkpoints) - cpu_ms), 4),
        checkpoint_flush_ms=round(max(0.0, median(each.waited_ms for each in checkpoints) - flush_ms), 4),
        spread=spread([each.cpu_ms for each in plain], mean(each.cpu_ms for each in plain)),
    )


def _commit(store: SqlSessionStore, writes: Sequence[Write], log: Path) -> Commit:
    thread = Path("/proc/thread-self")
    before, began_s, (cpu_s, line_s) = _pages(log), time.perf_counter(), scheduled_s(thread)
    store.commit(writes)
    (cpu_ended_s, line_ended_s), took_s, after = scheduled_s(thread), time.perf_counter() - began_s, _pages(log)
    spent_s = cpu_ended_s - cpu_s
    waited_s = max(0.0, took_s - spent_s - (line_ended_s - line_s))
    return Commit(spent_s * 1_000, waited_s * 1_000, after, after - before)


def _pages(log: Path) -> int:
    return int.from_bytes(log.read_bytes()[_MX_FRAME], "little") if log.exists() else 0


_PARTS = 100
"""So the slowest of a hundred is among the figures."""


def spread(values: Sequence[float], middle: float = 1.0, parts: int = _PARTS) -> list[float]:
    """The means of as many equal parts of the values, from the least to the highest, divided by `middle`.

    The mean of all of them is that of the values, whatever their slowest are.
    """
    ordered = sorted(values)
    bounds = [number * len(ordered) // parts for number in range(parts + 1)]
    return [round(mean(ordered[begin:end]) / middle, 3) for begin, end in pairwise(bounds) if end > begin]
