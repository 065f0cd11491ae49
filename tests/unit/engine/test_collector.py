"""While a Runtime is open, Python looks for garbage less often in its program; what the program has set itself stands."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.layers.trees.tree import AgentTree
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.services import deployed_tree
from runtime.engine.local import LocalEngine
from runtime.engine.process import collector
from runtime.engine.process.collector import (
    NEXT_TO_NOTHING,
    OBJECTS,
    THRESHOLDS,
    WITHOUT_GARBAGE,
    existing_left_out,
    look_less_often,
)


@pytest.fixture(autouse=True)
def threshold() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def runtime(folder: Path) -> Runtime:
    agent = LlmAgent(name="root", model=PatternModel([("", "hello")]))
    return Runtime(
        agent,
        app_name="rare",
        engine="local",
        session_store=f"sqlite:///{folder}.db",
        artifact_store=f"file://{folder}-artifacts",
    )


def test_it_looks_less_often_until_the_last_runtime_has_ended(tmp_path: Path) -> None:
    with runtime(tmp_path / "a"):
        with runtime(tmp_path / "b"):
            assert gc.get_threshold() == THRESHOLDS
        assert gc.get_threshold() == THRESHOLDS
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("objects", [0, 2 * OBJECTS])
def test_a_program_that_looks_less_often_by_itself_is_left_alone(tmp_path: Path, objects: int) -> None:
    gc.set_threshold(objects)
    with runtime(tmp_path):
        assert gc.get_threshold()[0] == objects
    assert gc.get_threshold()[0] == objects


def test_what_a_program_sets_meanwhile_stands(tmp_path: Path) -> None:
    with runtime(tmp_path):
        gc.set_threshold(900)
    assert gc.get_threshold() == (900, 10, 10)


@pytest.fixture
def nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a program that has frozen nothing: what runs these tests has."""
    monkeypatch.setattr(collector, "EXISTING", collector.Existing())
    has_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    if has_frozen:
        gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_a_start_looks_for_garbage_only_among_what_it_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out: list[bool] = []
    start = LocalEngine.start

    def look(_: AgentTree) -> None:
        left_out.append(gc.get_freeze_count() > 0)

    async def looked(engine: LocalEngine) -> None:
        left_out.append(gc.get_freeze_count() > 0)
        await start(engine)

    monkeypatch.setattr(deployed_tree, "check_models", look)
    monkeypatch.setattr(LocalEngine, "start", looked)
    made = runtime(tmp_path)
    assert (left_out, gc.get_freeze_count()) == ([True], 0)
    with made:
        assert (left_out, gc.get_freeze_count()) == ([True, True], 0)


@pytest.mark.usefixtures("nothing_frozen")
def test_objects_that_a_program_has_frozen_stay_so(tmp_path: Path) -> None:
    kept = [object() for _ in range(10)]
    gc.freeze()
    with runtime(tmp_path), existing_left_out():
        assert gc.get_freeze_count() > len(kept)
    assert gc.get_freeze_count() > len(kept)


@pytest.mark.usefixtures("nothing_frozen")
def test_of_what_a_program_has_frozen_a_start_counts_nothing_but_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.freeze()
    counted: list[int] = []

    def count() -> int:
        counted.append(len(counted))
        return 1

    monkeypatch.setattr(gc, "get_freeze_count", count)
    for name in "abc":
        with runtime(tmp_path / name):
            pass
    assert counted == [0]


@pytest.mark.usefixtures("nothing_frozen")
def test_blocks_that_overlap_leave_out_what_existed_until_the_last_of_them_ends() -> None:
    first, second = existing_left_out(), existing_left_out()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_freeze_count() > 0
    second.__exit__(None, None, None)
    assert gc.get_freeze_count() == 0
    with existing_left_out():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_what_existed_is_looked_at_again_after_a_failure() -> None:
    def fail() -> None:
        with existing_left_out():
            assert gc.get_freeze_count() > 0
            raise ValueError("it fails")

    with pytest.raises(ValueError, match="it fails"):
        fail()
    assert gc.get_freeze_count() == 0


@pytest.fixture
def one_that_looks_less_often() -> Iterator[None]:
    """A process as those of a deployment."""
    before = list(gc.callbacks)
    look_less_often()
    yield
    gc.callbacks[:] = before


def leave_garbage(objects: int) -> None:
    for _ in range(objects):
        held: list[object] = []
        held.append(held)


@pytest.mark.usefixtures("nothing_frozen", "one_that_looks_less_often")
def test_a_process_looks_less_often_and_a_program_in_it_leaves_that(tmp_path: Path) -> None:
    assert gc.get_freeze_count() > 0
    with runtime(tmp_path):
        assert gc.get_threshold() == THRESHOLDS
    assert gc.get_threshold() == THRESHOLDS


@pytest.mark.usefixtures("nothing_frozen", "one_that_looks_less_often")
def test_a_process_hardly_looks_for_garbage_until_it_finds_some() -> None:
    gc.collect(0)
    assert gc.get_threshold() == WITHOUT_GARBAGE
    leave_garbage(2 * NEXT_TO_NOTHING)
    gc.collect(0)
    assert gc.get_threshold() == THRESHOLDS
    leave_garbage(NEXT_TO_NOTHING // 2)
    gc.collect(0)
    assert gc.get_threshold() == WITHOUT_GARBAGE


@pytest.mark.usefixtures("nothing_frozen", "one_that_looks_less_often")
def test_thresholds_that_the_code_of_a_user_has_set_stand() -> None:
    gc.set_threshold(900, 5, 5)
    gc.collect(0)
    assert gc.get_threshold() == (900, 5, 5)
