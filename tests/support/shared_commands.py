"""Tests of one process share the command that Typer makes of an app: to read its parameters takes longer than most commands."""

from __future__ import annotations

from functools import cache

from typer import testing


def share_commands() -> None:
    """Have Typer's runner make the command of an app once."""
    names = vars(testing)
    names["_get_command"] = cache(names["_get_command"])
