"""The page that follows a message through the code names files that it runs through, and how many there are."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from raygrove import LlmAgent, Runtime
from raygrove.testing import ScriptedModel

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "a-message.md").read_text()

ELSEWHERE = ("runtime/transport/", "runtime/stores/sql/")
"""What a message passes between processes, and below the session store: steps 3 and 6 name files of them."""


@contextmanager
def files_entered(of: set[str]) -> Iterator[None]:
    """Within, `of` gets the files of the project whose functions are called, in any thread that begins here."""

    def called(frame: FrameType, event: str, arg: object) -> None:
        name = Path(frame.f_code.co_filename)
        if name.is_relative_to(ROOT):
            of.add(name.relative_to(ROOT).as_posix())

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture(scope="module")
def way() -> set[str]:
    """The files of the third turn of a session."""
    found = set[str]()
    greeter = LlmAgent(name="greeter", model=ScriptedModel(["one", "two", "three"]))
    with files_entered(found), Runtime(greeter, app_name="way", engine="local", session_store="sqlite://") as rt:
        for _ in range(2):
            rt.run(user_id="ada", session_id="s", message="hi").result()
        found.clear()
        rt.run(user_id="ada", session_id="s", message="hi").result()
        # Other threads go on.
        return {name for name in tuple(found) if name.startswith(("actors/", "runtime/")) and name != "actors/testing.py"}


def test_each_step_names_a_file_that_the_message_runs_through(way: set[str]) -> None:
    steps = re.findall(r"^\| \d+ \| \[`([^`]+)`\]", PAGE, re.MULTILINE)
    assert len(steps) == 12
    assert [name for name in steps if not name.startswith(ELSEWHERE) and name not in way] == []


def test_the_page_says_how_many_files_there_are(way: set[str]) -> None:
    said = re.search(r"runs through about (\d+) files", PAGE)
    assert said is not None
    assert abs(len(way) - int(said[1])) <= 5
