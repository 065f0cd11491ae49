"""Log files of agents: `<app>.<agent>.<pid>.log`, one for each agent in each process."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from runtime.observability.logs.lines import JSON, Line, formatter, record_of
from runtime.observability.logs.options import LogOptions
from runtime.private_files import make_folder, opener

MAX_BYTES = 10 * 1024 * 1024
"""A file that has grown to this size is renamed to `….log.1`, in place of the one before."""

MAX_OPEN = 32
"""Files that one process keeps open."""


class LogFiles:
    """Writes lines into a file for each agent.

    Args:
        options: names, form and folder.
        role: names the file of what belongs to no agent.
    """

    def __init__(self, options: LogOptions, folder: str, role: str) -> None:
        self._app_name = options.app_name
        self._formatter = formatter(options.format)
        self._is_json = options.format == JSON
        self._folder = folder
        self._role = role
        self._open: OrderedDict[str, TextIO] = OrderedDict()

    def path(self, agent: str) -> str:
        """The file of an agent, which may have nothing to say yet."""
        name = quote(agent or self._role, safe=" @+,=")[:100]
        return os.path.join(self._folder, f"{self._app_name}.{name}.{os.getpid()}.log")

    def put_lines(self, lines: Sequence[Line]) -> None:
        """Write lines. Raises OSError."""
        for line in lines:
            file = self._file(line.run.agent)
            file.write(f"{self._text(line)}\n")
            if file.tell() > MAX_BYTES:
                self._rotate(line.run.agent)
        for file in self._open.values():
            file.flush()

    def close(self) -> None:
        """Close the files; they are opened again for more lines."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _text(self, line: Line) -> str:
        return line.text if line.printed and not self._is_json else self._formatter.format(record_of(line))

    def _file(self, agent: str) -> TextIO:
        file = self._open.get(agent)
        if file is None:
            make_folder(Path(self._folder))
            while len(self._open) >= MAX_OPEN:
                self._open.popitem(last=False)[1].close()
            path = self.path(agent)
            file = self._open[agent] = open(path, "a", encoding="utf-8", errors="backslashreplace", opener=opener)  # noqa: SIM115
        self._open.move_to_end(agent)
        return file

    def _rotate(self, agent: str) -> None:
        self._open.pop(agent).close()
        path = self.path(agent)
        os.replace(path, f"{path}.1")
