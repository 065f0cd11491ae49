"""How much room conversations take on disk, by the number of their turns; and that it grows with them, and not faster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import Figure
from tests.benchmarks.plan import Plan
from tests.benchmarks.throughput import talk
from tests.benchmarks.workloads import instant_agent, runtime

NAME = "storage"


def measure(plan: Plan) -> list[Figure]:
    """The store's files after a tenth, a half and all of the turns of one session; and what the later turns took, each."""
    marks = sorted({max(1, plan.stored // 10), max(2, plan.stored // 2), max(3, plan.stored)})
    with TemporaryDirectory() as name:
        sizes = asyncio.run(_sizes(plan, Path(name), marks))
    figures = [Figure(f"{turns:,} turns of one session", size, "bytes", at=turns) for turns, size in sizes.items()]
    first, middle, last = sizes.items()
    return [
        *figures,
        Figure("a turn of the second half", _growth(middle, last), "bytes", _growth(first, middle), "before"),
    ]


def _growth(before: tuple[int, int], after: tuple[int, int]) -> float:
    return (after[1] - before[1]) / (after[0] - before[0])


async def _sizes(plan: Plan, folder: Path, marks: list[int]) -> dict[int, int]:
    done = 0
    sizes = {}
    for mark in marks:
        # Closed, so that the write-ahead log is merged into the database.
        async with runtime(plan, instant_agent(), folder) as rt:
            turn = talk(rt)
            while done < mark:
                await turn(0)
                done += 1
        sizes[mark] = _room(folder)
    return sizes


def _room(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.db*"))
