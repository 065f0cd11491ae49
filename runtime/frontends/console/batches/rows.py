"""The inputs of a batch: lines of JSON, or rows of CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from actors.errors import InvalidMessageError, RequestError
from runtime.driver.arguments import checked_choice

STANDARD_INPUT = "-"

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
