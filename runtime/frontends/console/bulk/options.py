"""The options by which commands find turns, and act on all that were found."""

from __future__ import annotations

from typing import Annotated

import typer

OfUser = Annotated[str | None, typer.Option("--user", help="Only of this user.")]
OfAgent = Annotated[str | None, typer.Option("--agent", help="Only turns of which this agent speaks, was selected, or failed.")]
WithError = Annotated[str | None, typer.Option("--error", metavar="TEXT", help="Only turns with this in their error.")]
WithText = Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Only turns in which this was said.")]
WithId = Annotated[
    str | None, typer.Option("--invocation", metavar="PREFIX", help="Only turns whose ids begin so, as those of a map do.")
]
OfVersion = Annotated[str | None, typer.Option("--version", help="Only turns that run or ran by this version of the tree.")]
Since = Annotated[
    str | None, typer.Option(metavar="AGE", help="Only turns that began at most so long ago, such as 2h, or wait in line.")
]
OlderThan = Annotated[str | None, typer.Option(metavar="AGE", help="Only turns that began longer ago, such as 10m.")]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
