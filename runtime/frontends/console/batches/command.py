"""`raygrove batch`: a turn for each line of a file. It imports little: the other commands begin with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.apps import options
from runtime.frontends.console.apps.run import INTERRUPTED, PAUSED

if TYPE_CHECKING:
    from runtime.frontends.console.apps.opening import Where
    from runtime.frontends.console.batches.running import BatchOptions

FAILED = 1
"""The exit code when an input has failed."""

Inputs = Annotated[str, typer.Argument(metavar="INPUTS", help="A file of JSON lines or CSV; - reads the standard input.")]
Output = Annotated[str, typer.Option("--output", "-o", help="The file of JSON lines to add to; - is the standard output.")]
Concurrency = Annotated[int, typer.Option(help="How many turns run at the same time.")]
Name = Annotated[str | None, typer.Option(help="Begins the ids of the turns; by default the name of the output file.")]
Retries = Annotated[int, typer.Option(help="Further attempts at an input that failed.")]
MessageField = Annotated[str, typer.Option(help="The field, or column, with the message.")]
Format = Annotated[str | None, typer.Option("--format", help="jsonl or csv; by default by the name of the file.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds after which an attempt is cancelled.")]
Progress = Annotated[bool | None, typer.Option(help="Show the progress; by default on a terminal.", show_default=False)]


def batch(
    app: options.App,
    inputs: Inputs,
    output: Output = "-",
    concurrency: Concurrency = 32,
    name: Name = None,
    retries: Retries = 0,
    timeout: Timeout = None,
    message_field: MessageField = "message",
    format_: Format = None,
    user: options.User = "user",
    app_name: options.AppName = None,
    store: options.Store = None,
    progress: Progress = None,
    ray: options.Ray = False,
    address: options.Address = None,
) -> None:
    """Run a turn for each line of a file, and write the results as JSON lines. Run again, it goes on where it stopped.

    Exit codes: 0 all inputs are answered, 1 some failed, 2 wrong usage, 3 some wait for a person, 130 Ctrl-C.
    """
    from runtime.frontends.console.apps.opening import Where
    from runtime.frontends.console.batches.running import BatchOptions

    job = BatchOptions(inputs, format_, message_field, output, name, concurrency, retries, timeout, user, progress)
    raise typer.Exit(_perform(job, Where(app, app_name, store, ray, address)))


def _perform(job: BatchOptions, where: Where) -> int:
    from runtime.frontends.console.batches.running import perform

    try:
        summary = perform(job, where)
    except KeyboardInterrupt:
        return INTERRUPTED
    summary.print()
    if summary.failed:
        return FAILED
    return PAUSED if summary.outcomes["paused"] else 0
