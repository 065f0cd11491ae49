"""A history of processes that may be lost: each writes to a file what it notes, and all together are one history."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from actors import Content, Event
from tests.model.history import Ask, History, ToolRun

READ = ("get", "append_event")
"""Requests whose results the judge looks at."""


class Journal(History):
    """A history that is written to a file of the process as it happens. All its processes are on one machine, and have its time.

    Args:
        folder: of the files, which is there.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(time.monotonic)
        self._folder = folder

    def ask(self, what: str, **of: Any) -> Ask:
        ask = super().ask(what, **of)
        self._write("ask", ask, what, **of)
        return ask

    def name(self, ask: Ask, turn: str) -> None:
        super().name(ask, turn)
        self._write("name", ask, turn)

    def hear(self, ask: Ask, event: Event) -> None:
        super().hear(ask, event)
        self._write("hear", ask, event)

    def end(self, ask: Ask, ended: str | BaseException, result: Any = None) -> None:
        super().end(ask, ended, result)
        self._write("end", ask, ended, result if ask.what in READ else None)

    def begin_tool(self, call_id: str) -> ToolRun:
        run = super().begin_tool(call_id)
        self._write("begin_tool", run, call_id)
        return run

    def end_tool(self, run: ToolRun) -> None:
        super().end_tool(run)
        self._write("end_tool", run)

    def ask_model(self, agent: str, turn: str = "", contents: Sequence[Content] = (), runner: str = "") -> None:
        self._write("ask_model", None, agent, turn, contents, runner)

    def lose(self, process: str, agents: Sequence[str] = ()) -> None:
        super().lose(process, agents)
        self._write("lose", None, process, agents)

    def _write(self, what: str, about: Ask | ToolRun | None, *args: Any, **of: Any) -> None:
        of_process = (os.getpid(), about.began) if about is not None else None
        note = pickle.dumps((time.monotonic(), what, of_process, args, of))
        with (self._folder / f"{os.getpid()}.notes").open("ab") as file:
            file.write(note)


def read_history(folder: Path) -> History:
    """What all processes have written, in real order."""
    note: Any = ()
    history = History(lambda: note[0])
    about: dict[object, Any] = {}
    for note in sorted((each for path in folder.glob("*.notes") for each in _notes(path)), key=itemgetter(0)):
        _, what, of_process, args, of = note
        if of_process in about:
            getattr(history, what)(about[of_process], *args)
        else:
            about[of_process] = getattr(history, what)(*args, **of)
        about.pop(None, None)
    return history


def _notes(path: Path) -> Iterator[Any]:
    """The notes of one process, which may have been lost in the midst of the last one."""
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return
