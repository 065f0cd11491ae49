"""A program that has not configured `logging` prints its warnings, and those of its agents, as Python prints them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import logging
import sys

from actors import LlmAgent, tool
from actors.testing import PatternModel
from runtime import Runtime

if sys.argv[2] == "configured":
    logging.basicConfig(format="mine: %(message)s")

log = logging.getLogger("shop.orders")


@tool
def look_up(order: str) -> str:
    log.info("looking up %s", order)
    log.warning("order %s is late", order)
    raise LookupError("no such order")


model = PatternModel([("order", {"call": "look_up", "args": {"order": "42"}})])
root = LlmAgent(name="desk", model=model, tools=[look_up])
log.warning("before")
# Two on the local engine: a line is printed once, however many handlers keep it.
with Runtime(root, app_name="desk", engine=sys.argv[1]) as rt, Runtime(root, app_name="other", engine="local"):
    log.warning("within")
    logging.getLogger("raygrove.events").warning("an event")
    rt.run(user_id="ada", session_id="s1", message="Where is my order?").result()
log.warning("after")
"""


def printed(folder: Path, engine: str, how: str) -> list[str]:
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", engine, how]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert "looking up" not in done.stderr
    return [line for line in done.stderr.splitlines() if any(each in line for each in SENTENCES)]


SENTENCES = ("before", "within", "an event", "order 42 is late", "tool 'look_up' of agent 'desk' failed", "after")


@pytest.mark.parametrize("how", ["plain", "configured"])
def test_warnings_of_the_program_and_its_tools_are_printed_once(tmp_path: Path, engine: str, how: str) -> None:
    said = printed(tmp_path, engine, how)
    assert [each for line in said for each in SENTENCES if each in line] == list(SENTENCES), said
    begins = "mine: " if how == "configured" else ""
    assert [said[0], said[-1]] == [f"{begins}before", f"{begins}after"]
