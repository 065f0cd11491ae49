"""What is measured of every peer, and how: the same as of ours.

Imports nothing but Python's own modules, since it runs in the peers' environments.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

SAID = "x" * 100
"""What the user says, and what has been said before."""

ANSWER = "ok"
"""What the model says."""

_WARM = 3
_TURNS_OF_A_SESSION = 8
"""Turns of one session under load, so that what is measured is not the growth of its history."""


class Peer(Protocol):
    """Another project, at work in a folder."""

    async def write_history(self, session: str, turns: int) -> None:
        """Make a session that has had so many turns, by the shortest way that leaves its next turn the same work."""

    async def store_turns(self, session: str, turns: int) -> None:
        """Make a session of so many turns that takes as much room as if it had had them."""

    async def turn(self, session: str) -> str:
        """Run a turn to its end. The session may be new. Returns the agent's answer."""


@dataclass(frozen=True)
class Request:
    """What to measure.

    Attributes:
        histories: turns that a session has had when its turns are measured.
        turns: turns measured at each of them.
        sessions: how many talk at once.
        load: turns of all sessions together, at each number of sessions.
        stored: turns whose size on disk is measured.
    """

    histories: Sequence[int]
    turns: int
    sessions: Sequence[int]
    load: int
    stored: int


@dataclass(frozen=True)
class Report:
    """What was measured.

    Attributes:
        version: of the peer.
        turn_ms: median of a turn, by history.
        rate: turns a second, by sessions at once.
        stored: turns whose size on disk is measured.
        stored_bytes: of all files of the store, closed.
    """

    version: str
    turn_ms: dict[int, float]
    rate: dict[int, float]
    stored: int
    stored_bytes: int


Opened = Callable[[Path], AbstractAsyncContextManager[Peer]]


def main(package: str, opened: Opened) -> None:
    """Measure what the first argument asks for, a Request as JSON, and print a Report as JSON."""
    report = asyncio.run(measure(package, opened, Request(**json.loads(sys.argv[1]))))
    print(json.dumps(asdict(report)))


async def measure(package: str, opened: Opened, request: Request) -> Report:
    """Turns by history, turns of many sessions at once, and room on disk, each in a store of its own.

    Args:
        package: the name under which the peer is installed.
        opened: the peer at work in a folder, as a context.
    """
    with TemporaryDirectory() as folder:
        turn_ms, rate, stored = (Path(folder) / name for name in ("turn", "rate", "stored"))
        for each in (turn_ms, rate, stored):
            each.mkdir()
        return Report(
            version=version(package),
            turn_ms=await _turn_ms(opened, turn_ms, request),
            rate=await _rates(opened, rate, request),
            stored=request.stored,
            stored_bytes=await _stored_bytes(opened, stored, request.stored),
        )


async def _turn_ms(opened: Opened, folder: Path, request: Request) -> dict[int, float]:
    async with opened(folder) as peer:
        for history in request.histories:
            await peer.write_history(f"after-{history}", history)
            for _ in range(_WARM):
                await _timed_ms(peer, f"after-{history}")
        # Block by block, so that a machine that gets slower does so for all lengths.
        taken_ms: dict[int, list[float]] = {history: [] for history in request.histories}
        for _ in range(request.turns):
            for history, samples_ms in taken_ms.items():
                samples_ms.append(await _timed_ms(peer, f"after-{history}"))
    return {history: statistics.median(samples_ms) for history, samples_ms in taken_ms.items()}


async def _timed_ms(peer: Peer, session: str) -> float:
    began_s = time.perf_counter()
    answer = await peer.turn(session)
    taken_ms = (time.perf_counter() - began_s) * 1_000
    assert answer == ANSWER, answer
    return taken_ms


async def _rates(opened: Opened, folder: Path, request: Request) -> dict[int, float]:
    async with opened(folder) as peer:
        return {sessions: await _rate(peer, sessions, max(1, request.load // sessions)) for sessions in request.sessions}


async def _rate(peer: Peer, sessions: int, turns: int) -> float:
    async def talk(number: int) -> None:
        for turn in range(turns):
            await peer.turn(f"{sessions}-{number}-{turn // _TURNS_OF_A_SESSION}")

    began_s = time.perf_counter()
    await asyncio.gather(*(talk(number) for number in range(sessions)))
    return sessions * turns / (time.perf_counter() - began_s)


async def _stored_bytes(opened: Opened, folder: Path, turns: int) -> int:
    async with opened(folder) as peer:
        await peer.store_turns("stored", turns)
    return await asyncio.to_thread(_size, folder)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
