"""A program of the storm: a process that asks a deployment for what it is given, and may be killed at any time.

Arguments: the address of the Ray cluster, and the folder of the history.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from pathlib import Path
from typing import Any

from runtime.driver.runtime import Runtime
from tests.model.asking import perform
from tests.model.history import Ask
from tests.model.journal import READ, Journal

APP = "storm"

SIZE = 8
"""Bytes that say how long the next message is."""


class Program:
    """A program in a process of its own.

    Attributes:
        name: of the process, in the history.
        is_dead: it was lost.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.name = f"program {process.pid}"
        self.is_dead = False
        self._process = process
        self._asked: list[asyncio.Future[Ask]] = []
        self._reading = asyncio.create_task(self._read())

    async def do(self, what: str, **of: Any) -> Ask:
        """Have it ask for something, and wait for what comes of it, or until it is lost: then the request has no end."""
        assert not self.is_dead, f"{self.name} has ended"
        assert self._process.stdin is not None
        of["program"] = self.name
        answer = asyncio.get_running_loop().create_future()
        self._process.stdin.write(framed((len(self._asked), what, of)))
        self._asked.append(answer)
        await asyncio.wait({answer, self._reading}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else Ask(what=what, **of)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while (answer := await unframed(self._process.stdout)) is not None:
            number, ask = answer
            self._asked[number].set_result(ask)
        self.is_dead = True

    def kill(self) -> None:
        """Lose it, unless it has ended."""
        if self._process.returncode is None:
            self._process.kill()

    async def end(self) -> int:
        """Have it leave the deployment. Returns how its process ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._reading
        return await self._process.wait()


async def start_program(address: str, folder: Path) -> Program:
    """Start a program."""
    command, pipe = (sys.executable, "-m", "tests.chaos.storm_program", address, str(folder)), asyncio.subprocess.PIPE
    with (folder / "programs.log").open("ab") as log:
        return Program(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=log))


def framed(message: Any) -> bytes:
    """A message, with its size before it."""
    raw = pickle.dumps(message)
    return len(raw).to_bytes(SIZE) + raw


async def unframed(reader: asyncio.StreamReader) -> Any:
    """The next message; None at the end."""
    try:
        return pickle.loads(await reader.readexactly(int.from_bytes(await reader.readexactly(SIZE))))
    except asyncio.IncompleteReadError:
        return None


async def main(address: str, folder: Path) -> None:
    """Ask for all that comes on the standard input. What others print goes to the standard error."""
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        reader, journal = asyncio.StreamReader(), Journal(folder)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async with Runtime.connect(APP, address=address) as rt, asyncio.TaskGroup() as group:

            async def answer(number: int, what: str, of: dict[str, Any]) -> None:
                ask = journal.ask(what, **of)
                await perform(rt, journal, ask)
                if what not in READ:
                    ask.result = None
                answers.write(framed((number, ask)))
                answers.flush()

            while (asked := await unframed(reader)) is not None:
                group.create_task(answer(*asked))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
