"""What supervisors note of children that fail, so that a resumed supervisor knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from actors import Failed, Finished, LoopAgent, ParallelAgent, Paused, SequentialAgent, Supervision
from actors.definitions.spec import AgentSpec
from actors.layers.workflows.run import run_loop, run_parallel, run_sequential
from actors.messages.protocol.runs import AnyOutcome
from actors.rules.routing.resumption import child_after_seq
from actors.testing import ManualClock

KAPUT = Failed(agent="a", error_code="ValueError")
RESTART = Supervision(strategy="restart", max_restarts=2, backoff_s=5)


class FakeContext:
    """Implements as much of Invocation as supervisors use: notes, and children whose runs end with the given outcomes.

    Attributes:
        notes: by their places in the log.
        ran: the children that were run, whether they were resumed, and when.
    """

    branch = None
    resume_at: tuple[str, ...] = ()

    def __init__(
        self, ends: Mapping[str, list[AnyOutcome]], progress: Mapping[str, Any] | None = None, noted_seq: int = 0
    ) -> None:
        self._ends = {child: list(outcomes) for child, outcomes in ends.items()}
        self.is_resumed = progress is not None
        self.progress: Mapping[str, Any] = progress or {}
        self.noted_seq = noted_seq
        self.clock = ManualClock(now_s=100)
        self.notes: dict[int, dict[str, Any]] = {}
        self.ran: list[tuple[str, bool, float]] = []
        self._head = noted_seq or 10

    async def run_child(
        self, name: str, *, branch: str | None = None, progress: Mapping[str, Any] | None = None, resume: bool = False
    ) -> AnyOutcome:
        if progress is not None:
            await self.note(progress)
        self.ran.append((name, resume, self.clock.now_s()))
        await asyncio.sleep(0)
        return self._ends[name].pop(0)

    async def note(self, progress: Mapping[str, Any], custom_metadata: dict[str, Any] | None = None) -> None:
        self._head += 1
        self.notes[self._head] = deepcopy(dict(progress))
        await asyncio.sleep(0)
        self.noted_seq = self._head

    async def stop_branch(self, branch: str) -> None:
        """Nothing runs."""


def spec(kind: type[SequentialAgent | ParallelAgent | LoopAgent], supervision: Supervision, *children: str) -> AgentSpec:
    return AgentSpec(definition=kind(name="s", supervision=supervision), children=children)


def begins(context: FakeContext, child: str) -> list[int]:
    """After which place the run of the child begins, as each note in turn tells; the supervisor's own began after 10."""
    return [child_after_seq((seq, note), child, 10) for seq, note in context.notes.items()]


async def test_in_a_sequence_a_run_begins_behind_the_note_of_its_restart_and_stays_there_when_it_is_given_up() -> None:
    context = FakeContext({"a": [KAPUT, KAPUT, KAPUT]})
    assert await run_sequential(spec(SequentialAgent, RESTART, "a", "b"), context) == KAPUT  # type: ignore[arg-type]
    assert [note.get("decided") for note in context.notes.values()] == [None, "restart", "restart", "escalate"]
    assert begins(context, "a") == [11, 12, 13, 13]
    assert context.ran == [("a", False, 100), ("a", False, 105), ("a", False, 115)]


async def test_restarts_in_all_iterations_of_a_loop_count_together() -> None:
    context = FakeContext({"a": [KAPUT, Finished(), KAPUT, Finished(), KAPUT]})
    assert await run_loop(spec(LoopAgent, RESTART, "a"), context) == KAPUT  # type: ignore[arg-type]
    assert [each for note in context.notes.values() if (each := note.get("decided"))] == ["restart", "restart", "escalate"]


async def test_in_a_parallel_every_note_tells_of_every_child_where_its_run_begins() -> None:
    context = FakeContext({"a": [KAPUT, KAPUT, Finished()], "b": [KAPUT, Finished()], "c": [Paused(call_ids=("c1",))]})
    await run_parallel(spec(ParallelAgent, RESTART, "a", "b", "c"), context)  # type: ignore[arg-type]
    decided = [(note.get("child"), note.get("decided")) for note in context.notes.values()]
    assert decided == [("a", "restart"), ("b", "restart"), ("a", "restart"), (None, None)]
    assert begins(context, "a") == [11, 11, 13, 13]
    assert begins(context, "b") == [10, 12, 12, 12]
    assert begins(context, "c") == [10, 10, 10, 10]
    assert set(context.notes[14]["restarts"]) == {"a", "b"}


async def test_a_failure_that_is_passed_over_leaves_its_run_where_it_began() -> None:
    context = FakeContext({"a": [KAPUT], "b": [KAPUT], "c": [Finished()]})
    skip = Supervision(strategy="skip")
    assert await run_parallel(spec(ParallelAgent, skip, "a", "b", "c"), context) == Finished()  # type: ignore[arg-type]
    assert begins(context, "a") == begins(context, "b") == [10, 10]
    assert context.notes[12] == {**context.notes[12], "child": "b", "decided": "skip", "skipped": ["a"]}


async def test_a_child_that_has_escalated_before_it_failed_has_escalated() -> None:
    context = FakeContext({"a": [Failed(agent="a", error_code="ValueError", escalated=True), Finished()]})
    await run_sequential(spec(SequentialAgent, RESTART, "a"), context)  # type: ignore[arg-type]
    assert [note["escalated"] for note in context.notes.values()] == [False, True]


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_who_goes_on_with_the_run_waits_what_is_left_of_the_wait(kind: type[SequentialAgent | ParallelAgent]) -> None:
    noted = {"child": "a", "decided": "restart", "restarts": {"a": [90.0, 103.0]}}
    context = FakeContext({"a": [KAPUT]}, noted, noted_seq=12)
    run = run_sequential if kind is SequentialAgent else run_parallel
    assert await run(spec(kind, RESTART, "a"), context) == KAPUT  # type: ignore[arg-type]
    assert context.ran == [("a", True, 103)]
    # Both restarts of before count.
    assert [note["decided"] for note in context.notes.values()] == ["escalate"]
    assert begins(context, "a") == [12]
