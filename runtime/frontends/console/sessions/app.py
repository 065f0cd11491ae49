"""The commands below `raygrove sessions`."""

from __future__ import annotations

import typer

from runtime.frontends.console.sessions.changing import delete, import_, rewind
from runtime.frontends.console.sessions.reading import export, list_sessions, show

app = typer.Typer(no_args_is_help=True, help="Read, export, import, rewind and delete sessions.")
app.command("list")(list_sessions)
app.command()(show)
app.command()(export)
app.command("import")(import_)
app.command()(rewind)
app.command()(delete)
