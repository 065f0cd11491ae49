"""Errors of runs as google-adk's code gets them: as the program has raised them."""

from __future__ import annotations

import builtins

from actors.errors import AgentFailedError, PluginFailedError


def as_raised(error: BaseException) -> BaseException:
    """The error of a run as its code has raised it, if it is of a class of Python's own; any other one as it is."""
    if not isinstance(error, AgentFailedError | PluginFailedError):
        return error
    _, name, message = error.args
    kind = getattr(builtins, name, None)
    return kind(message) if isinstance(kind, type) and issubclass(kind, Exception) else error
