"""Agents with the tools of test servers."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from actors import LlmAgent, McpTools
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.runtimes import run_turn

ROOT = Path(__file__).parents[3]


def server(name: str = "tests", program: str = "plain_mcp_server", **options: Any) -> McpTools:
    """A server that is started with a command."""
    command = [sys.executable, "-m", f"tests.support.servers.{program}"]
    env = {"PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return McpTools(name=name, command=command, env=env, cwd=str(ROOT), **options)


def agent(*toolsets: McpTools | Callable[..., Any], script: list[Any], name: str = "root") -> LlmAgent:
    """An agent with the tools of servers, and functions, whose model says what stands in a script."""
    return LlmAgent(name=name, model=ScriptedModel(script), tools=list(toolsets))


def call(name: str, /, **args: Any) -> dict[str, Any]:
    """A call, as a script has it."""
    return {"call": name, "args": args}


def responses(rt: Runtime, session_id: str = "s1") -> list[dict[str, Any]]:
    """Run a turn; the responses of its tools."""
    events = run_turn(rt, "go", session_id=session_id)
    return [response.response for event in events for response in event.function_responses()]


def free_port() -> int:
    """A port on which nothing listens."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(port: int) -> Iterator[None]:
    """The server made with the library, on a port, until it is left."""
    with listening([sys.executable, "-m", "tests.support.servers.mcp_server_program", str(port)], port):
        yield


@contextmanager
def listening(command: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """A program that listens on a port, until it is left."""
    process = subprocess.Popen(command, cwd=ROOT, env=env)
    try:
        _wait_until_it_listens(port)
        yield
    finally:
        process.kill()
        process.wait()


def _wait_until_it_listens(port: int) -> None:
    # Nothing tells when another process listens.
    for _ in range(600):
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")
