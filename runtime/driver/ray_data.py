"""A stage of a Ray Data pipeline: `ds.map_batches(RunTurns, …)`. It imports pyarrow, which comes with the extra `data`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from actors.errors import RequestError
from actors.errors.hints import explains_wrong_calls
from actors.messages.codec import plain
from actors.messages.event import USER
from runtime.driver.runtime import Runtime
from runtime.driver.scripts.inputs import MapResult
from runtime.driver.scripts.turn_map import ErrorKind
from runtime.settings import Settings

if TYPE_CHECKING:
    import pyarrow

ADDED = ("text", "output", "state", "error", "session_id", "invocation_id")
"""The columns that are added to a batch."""


class RunTurns:
    """Runs a turn for each row of a batch, in a deployment that it joins by name: `ds.map_batches(RunTurns, …)`.

    Ray Data keeps a pool of actors, each with an object of this class. It adds columns of texts to the batch: `text`, the answer;
    `output`, the answer as JSON where it is an object; `state`, what the turn has set, as JSON; `error`, its class and its text;
    `session_id` and `invocation_id`. The first four are null where there is none.

    The ids of turns come from `name` and from what a row says, so a batch that Ray Data makes again finds its turns, and so does
    the pipeline when it is run again. Equal rows of one batch are numbered; those of different batches share a turn, unless
    `id_column` tells them apart.

    Args:
        app_name: the deployment, which has to run before the pipeline does.
        message: the column with the messages.
        id_column: the column with an id for each row, which its turn gets.
        session_column, user_column: columns with the ids of sessions and users; by default each row has a session of its own.
        prefix: begins the names of the added columns.
        name, concurrency, user_id, result_type, retries, timeout: see Runtime.map; `concurrency` is that of each actor.
        settings: of the program that joins, see Runtime.connect.

    Raises:
        DeploymentNotFoundError: the app does not run.
        RequestError, DefinitionError: an argument is wrong, or a batch has no such column.
    """

    @explains_wrong_calls
    def __init__(
        self,
        app_name: str,
        *,
        message: str = "message",
        id_column: str | None = None,
        session_column: str | None = None,
        user_column: str | None = None,
        prefix: str = "",
        name: str = "data",
        concurrency: int = 32,
        user_id: str = USER,
        result_type: Any = None,
        retries: int | Mapping[ErrorKind, int] = 0,
        timeout: float | None = None,
        settings: Settings | None = None,
    ) -> None:
        columns = {"message": message, "session_id": session_column, "user_id": user_column, "invocation_id": id_column}
        self._columns = {field: column for field, column in columns.items() if column is not None}
        self._prefix = prefix
        self._name = name
        self._options: dict[str, Any] = {
            "concurrency": concurrency,
            "user_id": user_id,
            "result_type": result_type,
            "retries": retries,
            "timeout": timeout,
        }
        self._runtime = Runtime.connect(app_name, settings=settings)
        self._runtime.start()

    def __call__(self, batch: Any) -> pyarrow.Table:
        """Run the turns of a batch, in any of Ray Data's formats. Returns it with the columns added."""
        import pyarrow

        table = _as_table(batch)
        turns = self._runtime.map(self._inputs(table), name=self._name, in_order=True, progress=False, **self._options)
        rows = [_cells(result) for result in turns]
        for position, column in enumerate(ADDED):
            values = pyarrow.array([row[position] for row in rows], pyarrow.string())
            table = table.append_column(f"{self._prefix}{column}", values)
        return table

    def _inputs(self, table: pyarrow.Table) -> Iterator[dict[str, Any]]:
        for column in self._columns.values():
            if column not in table.column_names:
                raise RequestError(f"the batch has no column {column!r}; its columns: {', '.join(table.column_names)}")
        taken = [f"{self._prefix}{column}" for column in ADDED if f"{self._prefix}{column}" in table.column_names]
        if taken:
            raise RequestError(f"the batch has a column {taken[0]!r} already: give a prefix for those that are added")
        for row in table.select(list(dict.fromkeys(self._columns.values()))).to_pylist():
            given = {field: row[column] for field, column in self._columns.items() if row[column] is not None}
            if "invocation_id" in given:
                given["invocation_id"] = f"{self._name}-{given['invocation_id']}"
            yield {"message": None, **{field: _text(value) for field, value in given.items()}}


def _text(value: object) -> object:
    """A number that is an id, as text."""
    return str(value) if isinstance(value, int) else value


def _as_table(batch: Any) -> pyarrow.Table:
    import pyarrow

    if isinstance(batch, pyarrow.Table):
        return batch
    if isinstance(batch, Mapping):
        return pyarrow.table({name: pyarrow.array(values) for name, values in batch.items()})
    return pyarrow.Table.from_pandas(batch, preserve_index=False)


def _cells(result: MapResult) -> tuple[str | None, ...]:
    """The cells of the added columns."""
    is_object = result.error is None and not isinstance(result.output, str | None)
    return (
        result.text if result.result is not None else None,
        msgspec.json.encode(plain(result.output)).decode() if is_object else None,
        msgspec.json.encode(result.state).decode() if result.result is not None else None,
        f"{type(result.error).__name__}: {result.error}" if result.error is not None else None,
        result.session_id,
        result.invocation_id,
    )
