"""A program whose turns run from many threads, and that ends in the midst of them.

Arguments: its place, its way, a folder, the address of a Ray or "", and the name of its app. Its place is that of its Ray: one
of its `own`, a deployment that it has `joined`, or one that it has made, `detached`. Its way: it leaves its block at the `end`,
or by an `exception`, when it gets a line; or it waits for a `signal`. Each call of `ray.init` is noted in the folder, and each
error that is none of raygrove's.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from actors import LlmAgent, tool
from actors.errors import RaygroveError
from actors.testing import PatternModel
from runtime import Runtime, Settings

BUSY = 60
"""Turns that have ended before the program says that it is busy."""

INITS, ERRORS = "inits", "errors"
"""Files in the folder."""


@tool
async def look_up(number: int) -> str:
    """Look something up, which takes a moment."""
    await asyncio.sleep(0.02)
    return f"found {number}"


def tree() -> LlmAgent:
    """An agent whose turns have a call and two answers."""
    model = PatternModel([("tool:look_up", "found"), ("", {"call": "look_up", "args": {"number": 1}})])
    return LlmAgent(name="clerk", model=model, tools=[look_up])


def runtime(place: str, folder: Path, address: str | None, app: str) -> Runtime:
    """The program's Runtime."""
    if place == "joined":
        return Runtime.connect(app, address=address, logs=True)
    store, settings = f"sqlite:///{folder}/{app}.db", Settings(spare_hosts=1)
    return Runtime(tree(), app_name=app, address=address, session_store=store, detached=place == "detached", settings=settings)


class Load:
    """Turns in many ways, one after the other in each, until the Runtime is closed."""

    def __init__(self, rt: Runtime, folder: Path) -> None:
        self._rt = rt
        self._folder = folder
        self._numbers = itertools.count()
        self._is_busy = threading.Event()
        ways = [self._results, self._results, self._events, self._followed, self._map, self._awaited]
        self._threads = [threading.Thread(target=self._guarded, args=(way,)) for way in ways]

    def begin(self) -> None:
        """Start the threads, and wait until turns have ended."""
        for thread in self._threads:
            thread.start()
        self._is_busy.wait()

    def _guarded(self, way: Callable[[], None]) -> None:
        try:
            way()
        except RaygroveError:
            # It is closed, or its Ray is gone.
            self._is_busy.set()
        except BaseException:
            with (self._folder / ERRORS).open("a") as errors:
                errors.write(traceback.format_exc())
            raise

    def _session(self) -> dict[str, Any]:
        number = next(self._numbers)
        if number == BUSY:
            self._is_busy.set()
        return {"user_id": f"user{number % 7}", "session_id": f"{os.getpid()}-{number}", "message": f"look {number}"}

    def _results(self) -> None:
        while True:
            self._rt.run(**self._session()).result()

    def _events(self) -> None:
        while True:
            for _ in self._rt.run(**self._session()):
                pass

    def _followed(self) -> None:
        while True:
            session = self._session()
            turn = self._rt.run(**session, on_leave="continue")
            del session["message"]
            for _ in self._rt.attach(**session, invocation_id=turn.invocation_id):
                pass

    def _map(self) -> None:
        for _ in self._rt.map((self._session()["message"] for _ in itertools.count()), concurrency=16):
            pass

    def _awaited(self) -> None:
        async def one() -> None:
            while True:
                await self._rt.run(**self._session())

        async def many() -> None:
            await asyncio.gather(*(one() for _ in range(8)))

        asyncio.run(many())


def note_inits(folder: Path) -> None:
    """Have each call of `ray.init` noted, with its place."""
    init = ray.init

    def noted(*arguments: Any, **options: Any) -> Any:
        with (folder / INITS).open("a") as inits:
            inits.write("".join(traceback.format_stack()).replace("\n", " | ") + "\n")
        return init(*arguments, **options)

    ray.init = noted


def main(place: str, way: str, folder: Path, address: str | None, app: str) -> None:
    """Run turns, say so, and leave."""
    note_inits(folder)
    with runtime(place, folder, address, app) as rt:
        Load(rt, folder).begin()
        print("busy", flush=True)
        if way == "signal":
            threading.Event().wait()
        sys.stdin.readline()
        if way == "exception":
            raise ValueError("the program fails")


if __name__ == "__main__":
    given_place, given_way, given_folder, *rest = sys.argv[1:]
    main(given_place, given_way, Path(given_folder), rest[0] or None, rest[1])
