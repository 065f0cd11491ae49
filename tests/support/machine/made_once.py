"""What many tests of a process need, and what takes longer to make than they take: it is made once."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec

from typer import testing


def share_commands() -> None:
    """Have Typer's runner make the command of an app once, for which it reads the parameters of all its commands."""
    names = vars(testing)
    names["_get_command"] = cache(names["_get_command"])


def share_certificates() -> None:
    """Have clients of models' services read the certificates of this machine once."""
    # The environment of google-adk has no httpx2.
    if find_spec("httpcore2") is not None:
        names = vars(importlib.import_module("httpcore2"))
        names["default_ssl_context"] = cache(names["default_ssl_context"])
