"""While a Runtime is open, Python looks for garbage less often in its program; what the program has set itself stands."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime
from runtime.engine.process.collector import OBJECTS


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
            assert gc.get_threshold() == (OBJECTS, 10, 10)
        assert gc.get_threshold() == (OBJECTS, 10, 10)
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
    assert gc.get_threshold()[0] == 900
