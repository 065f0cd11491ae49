"""A batch: lines of JSON or rows of CSV in, a turn for each, and lines of JSON out, in a file that later runs go on with."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sys
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import msgspec

from actors.errors import InvalidMessageError, NotEncodableError, RaygroveError, RequestError
from actors.messages.codec import plain
from actors.messages.protocol.runs import Paused
from runtime.driver.arguments import checked_choice
from runtime.driver.runtime import Runtime
from runtime.driver.scripts.inputs import InputReader, MapResult
from runtime.driver.scripts.progress import duration
from runtime.private_files import opener

STANDARD_INPUT = "-"
"""In place of a file's name: the program's own input, or output."""

NAME = "batch"
"""Of a batch whose results have no file."""

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


def perform(rt: Runtime, source: RowSource, results: ResultsFile, name: str, *, user_id: str, **options: Any) -> Summary:
    """Run a turn for each row that has no answer yet, and write the results.

    Args:
        name: of the batch.
        user_id: of rows that name no user.
        options: of Runtime.map.

    Raises:
        RaygroveError: it cannot begin, or go on.
    """
    with results.opened() as file:
        rows = _Rows(source, InputReader(name, user_id), results.done, file)
        total = source.count()
        left = max(total - len(results.done), 0) if total is not None else None
        for result in rt.map(rows.inputs(), name=name, user_id=user_id, total=left, **options):
            rows.write(result)
        return rows.summary


def name_of(output: str) -> str:
    """The name of a batch whose results are in that file, or go to the standard output."""
    name = _NOT_IN_NAMES.sub("-", Path(output).stem).strip("-.") if output != STANDARD_INPUT else ""
    return name or NAME


class _Rows:
    """The rows on their way: those that have no answer yet become inputs, and their results lines.

    Args:
        done: the ids of rows that have an answer.
    """

    def __init__(self, source: RowSource, reader: InputReader, done: set[str], file: TextIO) -> None:
        self.summary = Summary()
        self._source = source
        self._reader = reader
        self._done = done
        self._file = file
        self._under_way: dict[int, Any] = {}

    def inputs(self) -> Iterator[Any]:
        """The inputs of the map, each with the id that makes it known to later runs."""
        index = 0
        for row in self._source.rows():
            try:
                fields = self._source.fields(row)
                read = self._reader.read(index, fields)
            except RaygroveError as error:
                self._put(MapResult(index=index, input=None, error=error), row)
                continue
            if read.invocation_id in self._done:
                self.summary.skipped += 1
                continue
            self._under_way[index] = row
            index += 1
            yield {**fields, "invocation_id": read.invocation_id}

    def write(self, result: MapResult) -> None:
        """Write the line of a result."""
        self._put(result, self._under_way.pop(result.index))

    def _put(self, result: MapResult, row: Any) -> None:
        self.summary.add(result)
        self._file.write(f"{result_line(result, row)}\n")


FORMATS = ("jsonl", "csv")

OF_A_TURN = ("user_id", "session_id", "state_delta", "invocation_id")
"""Fields of a row that say something about its turn, beside the message."""


@dataclass(frozen=True)
class RowSource:
    """Where the rows are.

    Attributes:
        name: a file, or `-` for the standard input.
        format: "jsonl" or "csv".
        message: the field with the message.
    """

    name: str
    format: str
    message: str

    @classmethod
    def of(cls, name: str, format: str | None, message: str) -> RowSource:
        """A source whose format is that of the file's name, if none is given. Raises RequestError."""
        if format is None:
            ending = Path(name).suffix.removeprefix(".").lower()
            format = {"ndjson": "jsonl", "json": "jsonl"}.get(ending, ending) if name != STANDARD_INPUT else "jsonl"
            if format not in FORMATS:
                raise RequestError(f"{name}: say with --format whether it is {' or '.join(FORMATS)}")
        if name != STANDARD_INPUT and not Path(name).is_file():
            raise RequestError(f"there is no file {name!r}")
        return cls(name, checked_choice("--format", format, FORMATS), message)

    def rows(self) -> Iterator[Any]:
        """The rows, one after the other; in place of one that cannot be read, the InvalidMessageError that says so."""
        with self._open() as file:
            yield from self._csv(file) if self.format == "csv" else _json_lines(file)

    def count(self) -> int | None:
        """The number of rows; None for the standard input, which can be read once."""
        if self.name == STANDARD_INPUT:
            return None
        with self._open() as file:
            if self.format == "csv":
                return sum(1 for _ in csv.DictReader(file))
            return sum(1 for line in file if line.strip())

    @contextmanager
    def _open(self) -> Iterator[TextIO]:
        if self.name == STANDARD_INPUT:
            yield sys.stdin
            return
        # Files that spreadsheets write may begin with a mark of their encoding.
        # Bytes that are no text stay what they are, so that only their row is an error.
        newline = "" if self.format == "csv" else None
        with Path(self.name).open(encoding="utf-8-sig", errors="surrogateescape", newline=newline) as file:
            yield file

    def _csv(self, file: TextIO) -> Iterator[Any]:
        reader = csv.DictReader(file)
        if self.message not in (reader.fieldnames or ()):
            columns = ", ".join(reader.fieldnames or ()) or "none"
            raise RequestError(
                f"{self.name} has no column {self.message!r}; its columns: {columns}. Name the one with --message-field"
            )
        for row in reader:
            # Cells beyond the header have no name.
            row.pop(None, None)
            yield row

    def fields(self, row: Any) -> dict[str, Any]:
        """The fields of a row, as an input of `Runtime.map`. Raises InvalidMessageError."""
        if isinstance(row, InvalidMessageError):
            raise row
        if isinstance(row, str):
            return {"message": row}
        if not isinstance(row, dict):
            raise InvalidMessageError(f"a line must be a JSON object or a text, not {json.dumps(row)[:80]}")
        if self.message not in row:
            raise InvalidMessageError(
                f"the row has no field {self.message!r}: name the one with the message with --message-field"
            )
        given = {field: row[field] for field in OF_A_TURN if row.get(field)}
        if self.format == "csv" and "state_delta" in given:
            try:
                given["state_delta"] = json.loads(given["state_delta"])
            except ValueError as error:
                raise InvalidMessageError(f"the cell state_delta is no JSON: {error}") from None
        return {"message": row[self.message], **given}


def _json_lines(file: TextIO) -> Iterator[Any]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                yield InvalidMessageError(f"line {number} is no JSON: {error}")


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
        if name != STANDARD_INPUT and Path(name).exists():
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
        if self._name == STANDARD_INPUT:
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


class Summary:
    """Counts results.

    Attributes:
        failed: inputs that failed, by kind of error.
        outcomes: inputs by how they ended.
        skipped: inputs that the results had already.
    """

    def __init__(self) -> None:
        self.failed: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.skipped = 0
        self._repeated = 0
        self._tokens: Counter[str] = Counter()
        self._durations_s = array("d")
        self._began_s = time.monotonic()

    def add(self, result: MapResult) -> None:
        """Count a result."""
        self.outcomes[outcome_of(result)] += 1
        if result.error is not None:
            self.failed[error_kind(result.error)] += 1
        if result.is_repeated:
            self._repeated += 1
            return
        usage = result.usage
        self._tokens["in"] += usage.prompt_token_count or 0
        self._tokens["out"] += usage.candidates_token_count or 0
        self._durations_s.append(result.duration_s)

    def print(self) -> None:
        """Print it on the standard error output: the results may go to the other one."""
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=False)
        for name, value in self._rows():
            table.add_row(name, value)
        console = Console(stderr=True)
        if console.is_terminal:
            console.print(table)
        else:
            for name, value in self._rows():
                print(f"{name}\t{value}", file=sys.stderr)

    def _rows(self) -> list[tuple[str, str]]:
        elapsed_s = time.monotonic() - self._began_s
        asked = len(self._durations_s)
        rows = [("done", f"{self.outcomes['finished'] + self.skipped:,}")]
        if self.skipped + self._repeated:
            rows.append(("of these from before", f"{self.skipped + self._repeated:,}"))
        if self.outcomes["paused"]:
            rows.append(("paused", f"{self.outcomes['paused']:,}"))
        rows.append(("failed", f"{self.failed.total():,}"))
        rows += [(f"  {kind}", f"{number:,}") for kind, number in self.failed.most_common()]
        rows.append(("tokens in, out", f"{self._tokens['in']:,}, {self._tokens['out']:,}"))
        if asked:
            in_order = sorted(self._durations_s)
            p50, p99 = in_order[asked // 2], in_order[min(asked - 1, asked * 99 // 100)]
            rows.append(("p50, p99", f"{p50:.2f} s, {p99:.2f} s"))
        rows.append(("rate", f"{asked / max(elapsed_s, 1e-9):,.1f}/s in {duration(elapsed_s)}"))
        return rows
