"""An agent whose turn has a store, an MCP server and code in a folder of its own under way, until a pipe is written to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from actors import LlmAgent, McpTools, tool
from actors.testing import PatternModel
from runtime.integrations.code.tool import python_tool
from tests.support.agents.mcp_tools import ROOT
from tests.support.polling import until

WORK = """
open("kept.txt", "w").write({word!r})
print(open({pipe!r}).read())
"""


@tool
def where(word: str) -> str:
    """Say something in a log.

    Args:
        word: what to say.
    """
    print(word)
    return f"{word} is said by {os.getpid()}"


def busy_agent(word: str, pipe: Path) -> LlmAgent:
    """An agent that answers "say" and "work".

    Args:
        word: what it says in a log, and writes into the folder of its code.
        pipe: a named pipe, from which the code reads until its end.
    """
    code = WORK.format(word=word, pipe=str(pipe))
    script: list[Any] = [
        ("^say", {"call": "where", "args": {"word": word}}),
        ("^work", {"call": "add", "args": {"a": 1, "b": 2}}),
        ("tool:add", {"call": "run_python", "args": {"code": code}}),
        ("tool:run_python", "whole"),
    ]
    command = [sys.executable, "-m", "tests.support.servers.plain_mcp_server"]
    tools = McpTools(name="tests", command=command, env={"PYTHONPATH": str(ROOT), "MCP_KEY": word})
    model = PatternModel(script, default="said")
    return LlmAgent(name="root", model=model, tools=[where, tools, python_tool(timeout_s=300, num_cpus=0.1)])


def when_working(pipe: Path) -> int:
    """Wait until the code reads the pipe. Returns the descriptor of its other end: the turn goes on when it is closed."""
    found: list[int] = []

    def is_read() -> bool:
        try:
            found.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    until(is_read)
    return found[0]
