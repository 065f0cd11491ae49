"""What many tests of a process need, and what takes longer to make than they take: it is made once."""

from __future__ import annotations

import importlib
import os
from functools import cache
from importlib.util import find_spec

from typer import testing


def share_commands() -> None:
    """Have Typer's runner make the command of an app once, for which it reads the parameters of all its commands."""
    names = vars(testing)
    names["_get_command"] = cache(names["_get_command"])


def share_certificates() -> None:
    """Have clients of models' services read the certificates of this machine, or those of a file, once."""
    # The environment of google-adk has no httpx2.
    if find_spec("httpcore2") is not None:
        names = vars(importlib.import_module("httpcore2"))
        make = names["default_ssl_context"]
        made = cache(lambda _, **options: make(**options))
        names["default_ssl_context"] = lambda **options: made(os.environ.get("SSL_CERT_FILE"), **options)
