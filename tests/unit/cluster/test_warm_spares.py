"""Spares of a Runner that stands by load code only as long as new turns get the version that it is of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from actors.errors import ClusterError
from runtime.cluster.core import runner
from runtime.cluster.core.runner import WarmSpares
from runtime.cluster.processes.pool import RayDirectory


class Spares:
    """Stands in for a directory and for the record of versions.

    Args:
        answers: whether there is a later version, or why that cannot be read; the last one holds from then on.
    """

    def __init__(self, answers: Sequence[bool | ClusterError]) -> None:
        self._answers = list(answers)
        self.done: list[str] = []
        self.asked = 0

    async def load_spares(self) -> None:
        self.done.append("load")

    def replace_loaded_spares(self) -> None:
        self.done.append("replace")

    async def has_later(self) -> bool:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOOK_FOR_UPDATE_S", 0.0)


@pytest.mark.parametrize(
    ("answers", "done"),
    [
        ([False], ["load"]),
        ([False, False, True], ["load", "replace"]),
        ([False, ClusterError("it is away")], ["load", "replace"]),
        ([True], []),
        ([ClusterError("it is away")], []),
    ],
)
async def test_code_is_loaded_and_given_up_when_there_is_a_later_version(
    answers: Sequence[bool | ClusterError], done: list[str]
) -> None:
    spares = Spares(answers)
    warm = WarmSpares(cast(RayDirectory, spares), spares.has_later)
    await warm.load()
    for _ in range(20):
        await asyncio.sleep(0)
    assert spares.done == done
    warm.end()


async def test_a_runner_that_leads_looks_no_more() -> None:
    spares = Spares([False, False, True])
    warm = WarmSpares(cast(RayDirectory, spares), spares.has_later)
    await warm.load()
    warm.end()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (spares.done, spares.asked) == (["load"], 1)
