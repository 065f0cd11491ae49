"""Unit costs of a turn, as they were measured on one machine. The simulation plays queues with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

FILE = Path(__file__).with_suffix(".json")

WEB, RUNNER, SESSION, AGENT, STORE, DATABASE = "web", "runner", "session", "agent", "store", "database"
"""Parts. `web` is the program that asks for turns; `store` is the thread in a Session actor that writes."""

SHARES: Mapping[str, Mapping[str, float]] = {
    WEB: {"ask": 0.55, "stored": 0.2, "answer": 0.25},
    RUNNER: {"ask": 0.3, "opened": 0.35, "stored": 0.1, "ended": 0.25},
    SESSION: {"open": 0.3, "stored": 0.15, "append": 0.35, "appended": 0.2},
    AGENT: {"run": 0.75, "appended": 0.25},
    STORE: {"message": 0.5, "answer": 0.5},
    DATABASE: {"message": 0.5, "answer": 0.5},
}
"""The messages that each part takes in a plain turn, or what is written; and the share of each of the CPU beside the passes.

From `perf record -e sched:sched_switch`, which tells the CPU of every pass: by how much one of 16 such messages is longer than
one that is alone. A Runner's but `stored` come in one pass there, so these three have what is left in the shares of lone passes.
"""

PASSES: Mapping[str, int] = {part: len(messages) for part, messages in SHARES.items()}
"""How many those are. A turn that is alone has a pass of the event loop for each."""

EVENT_PASSES: Mapping[str, int] = {WEB: 1, RUNNER: 0, SESSION: 2, AGENT: 2, STORE: 1, DATABASE: 1}
"""As many more for each further event of the turn: the call of a tool, and its response."""

LOG_PAGES = 1_000
"""Pages of the write-ahead log after which SQLite writes them into the database: its default, `wal_autocheckpoint`."""


class UnitCost(msgspec.Struct, frozen=True, kw_only=True):
    """CPU of one part, in milliseconds.

    Attributes:
        pass_ms: of a pass of its event loop, or of a transaction, whatever comes in it.
        turn_ms: of a turn, beside the passes. So much is left of a turn where many come in each pass.
        event_ms: of each further event of a turn, beside the passes.
    """

    pass_ms: float
    turn_ms: float
    event_ms: float = 0.0


class CommitCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit to SQLite costs beside the CPU of its pass, and how far equal pieces of work differ.

    Attributes:
        flush_ms: the wait of a commit of one write for the disk.
        flush_write_ms: of each further write.
        pages: that a commit of one write adds to the write-ahead log.
        write_pages: that each further write adds.
        checkpoint_cpu_ms: CPU of writing the log's pages into the database, which the commit does by which the log is full.
        checkpoint_flush_ms: the wait of that for the disk.
        spread: CPU of equal commits, divided by their mean: the means of as many equal parts of them.
    """

    flush_ms: float
    flush_write_ms: float = 0.0
    pages: float = 0.0
    write_pages: float = 0.0
    checkpoint_cpu_ms: float = 0.0
    checkpoint_flush_ms: float = 0.0
    spread: Sequence[float] = (1.0,)

    def flush_s(self, writes: int) -> float:
        """The wait of a commit of so many writes, in seconds."""
        return (self.flush_ms + self.flush_write_ms * (writes - 1)) / 1_000

    def log_pages(self, writes: float) -> float:
        """Pages that a commit of so many writes adds to the log."""
        return self.pages + self.write_pages * (writes - 1)


class MeasuredLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine did with a closed loop: each session asks again when it has its answer.

    Attributes:
        sessions: at once.
        turns: of all sessions together.
        rate: turns a second.
        p50_ms, p95_ms, p99_ms: latency of a turn.
        cpu_ms: CPU of a turn, by part.
        commits: transactions of a turn.
        others: cores that other programs had meanwhile.
    """

    sessions: int
    turns: int
    rate: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    cpu_ms: Mapping[str, float]
    commits: float
    others: float


class UnitCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, and what follows from it.

    Attributes:
        measured: date and time.
        machine: what it was measured on.
        cores: of the machine.
        versions: of Python, Ray and others.
        parts: CPU by part, the store being SQLite; `database` is 0 there.
        postgres: CPU of the parts `session`, `store` and `database` where the store is PostgreSQL.
        shared_ms: CPU of a turn that the same parts have besides where there are several Session actors.
        hop_ms: until a process, or a thread, that sleeps runs again for what another one has sent it, on one node.
        takeovers_ms: until a core that has nothing to do takes over a thread that waits for another core: the means of as many
            equal parts, and of any of them as often as of another.
        commits: to SQLite.
        memory_mb: of a process, by part, its caches left out.
        loads: on SQLite, from which the above is taken and by which the simulation is validated.
    """

    measured: str
    machine: str
    cores: int
    versions: Mapping[str, str]
    parts: Mapping[str, UnitCost]
    postgres: Mapping[str, UnitCost]
    shared_ms: Mapping[str, float]
    hop_ms: float
    takeovers_ms: Sequence[float]
    commits: CommitCosts
    memory_mb: Mapping[str, float]
    loads: Sequence[MeasuredLoad]

    def of(self, part: str, *, on_postgres: bool, shards: int = 1) -> UnitCost:
        """The costs of a part in a deployment."""
        if not on_postgres:
            return self.parts[part]
        cost = self.postgres.get(part) or self.parts[part]
        shared_ms = self.shared_ms.get(part, 0.0) if shards > 1 else 0.0
        return msgspec.structs.replace(cost, turn_ms=cost.turn_ms + shared_ms)


class NoUnitCostsError(Exception):
    """No unit costs can be read. Arguments: the file, why, and what to do."""


def read(file: Path = FILE) -> UnitCosts:
    """The unit costs in a file. Raises NoUnitCostsError."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=UnitCosts)
    except (OSError, msgspec.DecodeError) as error:
        raise NoUnitCostsError(f"{file}: {error}. `python -m tests.capacity measure` writes it") from error


def write(costs: UnitCosts, file: Path = FILE) -> None:
    """Put unit costs into a file."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(costs)) + b"\n")


def messages_s(part: str, cost: UnitCost) -> Mapping[str, float]:
    """Seconds of CPU of each message of a plain turn, beside the passes."""
    return {message: share * cost.turn_ms / 1_000 for message, share in SHARES[part].items()}


def event_s(part: str, cost: UnitCost) -> float:
    """Seconds of CPU of a message of a further event: all of them have the same share."""
    return cost.event_ms / max(1, EVENT_PASSES[part]) / 1_000
