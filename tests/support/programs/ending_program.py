"""A program whose turn hangs, and that ends in one of several ways: see `WAYS`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors import LlmAgent, tool
from actors.testing import PatternModel
from runtime import Runtime

TURN: dict[str, Any] = {"user_id": "ada", "session_id": "s1", "invocation_id": "pay-1", "message": "pay"}


@tool
async def pay(amount: int) -> str:
    """Pay."""
    folder = Path(os.environ["ENDING_FOLDER"])
    (folder / "paying").touch()
    while not (folder / "go").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return "paid"


def runtime(engine: Any, folder: str) -> Runtime:
    """A Runtime whose agent pays when a file is there."""
    model = PatternModel([("tool:pay", "It is paid."), ("pay", {"call": "pay", "args": {"amount": 80}})])
    root = LlmAgent(name="clerk", model=model, tools=[pay])
    return Runtime(root, app_name="ending", engine=engine, session_store=f"sqlite:///{folder}/sessions.db")


def wait_for(folder: str) -> None:
    while not Path(folder, "paying").exists():
        time.sleep(0.01)
    print("paying", flush=True)


def result(rt: Runtime, folder: str) -> None:
    turn = rt.run(**TURN)
    wait_for(folder)
    turn.result()


def iterate(rt: Runtime, folder: str) -> None:
    for event in rt.run(**TURN):
        if any(event.function_calls()):
            wait_for(folder)


def body(rt: Runtime, folder: str) -> None:
    for event in rt.run(**TURN):
        if any(event.function_calls()):
            wait_for(folder)
            signal.pause()


def fail(rt: Runtime, folder: str) -> None:
    turn = rt.run(**TURN)
    wait_for(folder)
    raise ValueError(turn.invocation_id)


def leave(rt: Runtime, folder: str) -> None:
    turn = rt.run(**TURN)
    wait_for(folder)
    print(turn.invocation_id)


def close(rt: Runtime, folder: str) -> None:
    turn = rt.run(**TURN)
    wait_for(folder)
    rt.close(leave_turns=True)
    print(turn.invocation_id)


async def wait(rt: Runtime, folder: str) -> None:
    turn = rt.run(**TURN)
    await asyncio.to_thread(wait_for, folder)
    await turn


WAYS: dict[str, Callable[[Runtime, str], Any]] = {
    each.__name__: each for each in (result, iterate, body, fail, leave, close, wait)
}


async def main_async(rt: Runtime, folder: str) -> None:
    async with rt:
        await wait(rt, folder)


def main(engine: str, folder: str, way: str) -> None:
    rt = runtime(engine, folder)
    if way == "wait":
        asyncio.run(main_async(rt, folder))
        return
    with rt:
        WAYS[way](rt, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
