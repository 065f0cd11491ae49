"""The results of a batch: a line of JSON for each input, in a file that later runs go on with."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import msgspec

from actors.errors import NotEncodableError, RaygroveError, RequestError
from actors.messages.codec import plain
from actors.messages.protocol.outcomes import Paused
from runtime.driver.scripts.results import MapResult
from runtime.private_files import opener

STANDARD_OUTPUT = "-"


class ResultsFile:
    """The file with the results.

    Args:
        name: the file, or `-` for the standard output.

    Attributes:
        done: the ids of inputs that have an answer in it.

    Raises:
        RequestError: it has something else in it, or cannot be written.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.done: set[str] = set()
        if name != STANDARD_OUTPUT and Path(name).exists():
            self._keep_answers(Path(name))

    def _keep_answers(self, path: Path) -> None:
        """Note what is answered, and drop the lines of inputs that are tried again, and one that was cut off."""
        kept = path.with_name(f"{path.name}.part")
        is_whole = True
        with path.open("rb") as file, open(kept, "wb", opener=opener) as part:
            for line in file:
                if not line.strip():
                    continue
                found = _line(line)
                if found is None and line.endswith(b"\n"):
                    kept.unlink()
                    raise RequestError(f"{path} has a line that is no result of a batch: name another file with --output")
                if found is not None and found["outcome"] == "finished" and line.endswith(b"\n"):
                    self.done.add(found["id"])
                    part.write(line)
                else:
                    is_whole = False
        if is_whole:
            kept.unlink()
        else:
            # The file is the user's: it stays as open, or as closed, as it is.
            shutil.copymode(path, kept)
            os.replace(kept, path)

    @contextmanager
    def opened(self) -> Iterator[TextIO]:
        """The file, to which lines are added. Each is written at once."""
        if self._name == STANDARD_OUTPUT:
            yield sys.stdout
            return
        try:
            file = open(self._name, "a", encoding="utf-8", buffering=1, opener=opener)  # noqa: SIM115
        except OSError as error:
            raise RequestError(f"{self._name!r} cannot be written: {error.strerror}") from None
        with file:
            yield file


def _line(line: bytes) -> dict[str, Any] | None:
    """A line of such a file; None when it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("id"), str) and "outcome" in found else None


def outcome_of(result: MapResult) -> str:
    """The end of an input: finished, paused or failed."""
    if result.error is not None:
        return "failed"
    return "paused" if isinstance(result.outcome, Paused) else "finished"


def result_line(result: MapResult, row: object) -> str:
    """The line of a result. What has no form in JSON is written as Python shows it: an input may be any text."""
    line = {
        "id": result.invocation_id,
        "outcome": outcome_of(result),
        "input": row if not isinstance(row, Exception) else None,
        "text": result.text,
        **({"output": _output(result)} if not isinstance(result.output, str | None) else {}),
        "state": result.state,
        "error": None if result.error is None else {"type": error_kind(result.error), "message": str(result.error)},
        "user_id": result.user_id,
        "session_id": result.session_id,
        "attempts": result.attempts,
        "usage": result.usage,
        "duration_s": round(result.duration_s, 3),
    }
    try:
        return msgspec.json.encode(line).decode()
    except UnicodeEncodeError:
        # Half a surrogate pair is no character, but JSON of other makers may have it as an escape.
        return json.dumps(msgspec.to_builtins(line))


def _output(result: MapResult) -> object:
    try:
        return plain(result.output)
    except NotEncodableError:
        return str(result.output)


def error_kind(error: BaseException) -> str:
    """The name of an error's class; of what an agent's own code has raised, the name of that."""
    if isinstance(error, RaygroveError) and type(error).__name__ in ("AgentFailedError", "PluginFailedError"):
        return str(error.args[1])
    return type(error).__name__
