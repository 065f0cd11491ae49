"""Unit costs of a turn, as they were measured on one machine. The simulation plays queues with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

FILE = Path(__file__).with_suffix(".json")

WEB, RUNNER, SESSION, AGENT, DATABASE = "web", "runner", "session", "agent", "database"
"""Parts. `web` is the program that asks for turns. The thread that writes to the store is one of the Session actor's."""

PASSES: Mapping[str, int] = {WEB: 3, RUNNER: 4, SESSION: 6, AGENT: 2, DATABASE: 2}
"""Messages that each part takes in a plain turn; of a Session actor two are transactions. A turn that is alone has a pass of the
event loop for each."""

EVENT_PASSES: Mapping[str, int] = {WEB: 1, RUNNER: 0, SESSION: 3, AGENT: 2, DATABASE: 1}
"""As many more for each further event of the turn: the call of a tool, and its response."""


class UnitCost(msgspec.Struct, frozen=True, kw_only=True):
    """CPU of one part, in milliseconds.

    Attributes:
        pass_ms: of a pass of its event loop, whatever comes in it.
        turn_ms: of a turn, beside the passes. So much is left of a turn where many come in each pass.
        event_ms: of each further event of a turn, beside the passes.
    """

    pass_ms: float
    turn_ms: float
    event_ms: float = 0.0

    def message_s(self, part: str) -> float:
        """Seconds of CPU of a message of a plain turn, beside the pass: all have the same share."""
        return self.turn_ms / PASSES[part] / 1_000

    def event_s(self, part: str) -> float:
        """Seconds of CPU of a message of a further event, beside the pass."""
        return self.event_ms / max(1, EVENT_PASSES[part]) / 1_000


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
        parts: CPU by part, the store being SQLite.
        postgres: CPU of the parts `session` and `database` where the store is PostgreSQL.
        shared_ms: CPU of a turn that the same parts have besides where there are several Session actors.
        hop_ms: until a process that sleeps runs again for what another one has sent it, on one node.
        memory_mb: of a process, by part, its caches left out.
        loads: on SQLite, from which the above is taken and to which the simulation is held.
    """

    measured: str
    machine: str
    cores: int
    versions: Mapping[str, str]
    parts: Mapping[str, UnitCost]
    postgres: Mapping[str, UnitCost]
    shared_ms: Mapping[str, float]
    hop_ms: float
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
