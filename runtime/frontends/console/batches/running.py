"""Runs a batch: rows in, turns, lines out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from actors.errors import RaygroveError
from runtime.driver.scripts.inputs import InputReader
from runtime.driver.scripts.results import MapResult
from runtime.frontends.console.apps.opening import Where, open_named
from runtime.frontends.console.batches.results_file import STANDARD_OUTPUT, ResultsFile, result_line
from runtime.frontends.console.batches.rows import RowSource
from runtime.frontends.console.batches.summary import Summary

NAME = "batch"
"""Of a batch whose results have no file."""

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class BatchOptions:
    """What the command was given."""

    inputs: str
    format: str | None
    message_field: str
    output: str
    name: str | None
    concurrency: int
    retries: int
    timeout: float | None
    user: str
    progress: bool | None


def perform(job: BatchOptions, where: Where) -> Summary:
    """Run a batch. Raises RaygroveError when it cannot begin or go on, and KeyboardInterrupt."""
    source = RowSource.of(job.inputs, job.format, job.message_field)
    results = ResultsFile(job.output)
    name = job.name or _name_of(job.output)
    with open_named(where) as rt, results.opened() as file:
        rows = _Rows(source, InputReader(name, job.user), results.done, file)
        total = source.count()
        turns = rt.map(
            rows.inputs(),
            name=name,
            concurrency=job.concurrency,
            user_id=job.user,
            retries=job.retries,
            timeout=job.timeout,
            progress=job.progress,
            total=max(total - len(results.done), 0) if total is not None else None,
        )
        for result in turns:
            rows.write(result)
        return rows.summary


def _name_of(output: str) -> str:
    name = _NOT_IN_NAMES.sub("-", Path(output).stem).strip("-.") if output != STANDARD_OUTPUT else ""
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
