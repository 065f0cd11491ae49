"""A program that forks inside of its `with` block. Its arguments: the engine.

It prints what its forks have found, and how each has ended.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime, Settings
from runtime.driver.turns.turn import Turn

PATIENCE_S = 20
"""A fork that has not ended by then hangs."""


async def each_event(turn: Turn) -> list[Any]:
    """All events of a turn."""
    return [event async for event in turn]


def public_calls(rt: Runtime, turn: Turn) -> dict[str, Callable[[], Any]]:
    """Everything that a program may ask for."""
    where: dict[str, Any] = {"user_id": "ada", "session_id": "s1"}
    return {
        "run": lambda: rt.run(**where, message="hi"),
        "run_task": lambda: rt.run_task("think", **where),
        "attach": lambda: rt.attach(**where, invocation_id=turn.invocation_id),
        "start": rt.start,
        "shutdown": rt.shutdown,
        "statistics": rt.statistics,
        "sessions": lambda: rt.sessions.list("ada"),
        "artifacts": lambda: rt.artifacts.list_keys("ada", "s1"),
        "memory": lambda: rt.memory.search("ada", "hi"),
        "turn.agent": lambda: turn.agent,
        "turn.cancel": turn.cancel,
        "turn.result": turn.result,
        "for": lambda: list(turn),
        "await": lambda: asyncio.run(turn.aio.result()),
        "async for": lambda: asyncio.run(each_event(turn)),
        "aio.cancel": lambda: asyncio.run(turn.aio.cancel()),
        "aio.sessions": lambda: asyncio.run(rt.aio.sessions.list("ada")),
        "aio.artifacts": lambda: asyncio.run(rt.aio.artifacts.list_keys("ada", "s1")),
        "aio.statistics": lambda: asyncio.run(rt.aio.statistics()),
        "aio.shutdown": lambda: asyncio.run(rt.aio.shutdown()),
    }


def use(rt: Runtime, turn: Turn) -> None:
    """Call everything, and print what was not refused as it should be."""
    signal.alarm(PATIENCE_S)
    for name, call in public_calls(rt, turn).items():
        try:
            call()
            print(name, "was done", flush=True)
        except Exception as error:
            if type(error).__name__ != "ForkedProcessError":
                print(name, repr(error), flush=True)


def ended(pid: int) -> int:
    """How a fork has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(engine: Any) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="hello"))
    with Runtime(root, app_name="forking", engine=engine, settings=Settings(spare_hosts=0)) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="hi")
        turn.result()
        for status in (3, 4, 0):
            pid = os.fork()
            if pid == 0:
                use(rt, turn)
                rt.close()
                if status == 3:
                    sys.exit(status)
                if status == 4:
                    os._exit(status)
                # Leaves the block, and then the interpreter, by its end.
                return
            print("a fork ended with", ended(pid), flush=True)
        process = multiprocessing.get_context("fork").Process(target=use, args=(rt, turn))
        process.start()
        process.join()
        print("a process ended with", process.exitcode, flush=True)
        print(rt.run(user_id="ada", session_id="s1", message="hi").result().text, flush=True)
        print(len(rt.sessions.list("ada")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
