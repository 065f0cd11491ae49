"""Arguments and options of the commands for deployments."""

from __future__ import annotations

from typing import Annotated

import typer

from runtime.frontends.console.completion import complete_deployment

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The name of a deployment that runs.", show_default=False, autocompletion=complete_deployment
    ),
]
Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.", show_default=False)]
SomeSession = Annotated[
    str | None, typer.Argument(metavar="SESSION", help="The session's id; with --all it may be left out.", show_default=False)
]
Invocation = Annotated[
    str | None, typer.Argument(metavar="INVOCATION", help="The turn; by default the one of the session that is open.")
]
Address = Annotated[str | None, typer.Option(help="Address of the Ray cluster; by default the one on this machine.")]
User = Annotated[str | None, typer.Option(help="Whose session it is; needed where several users have one with this id.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print calls of tools and transfers on the standard error.")]
