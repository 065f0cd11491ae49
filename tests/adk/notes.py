"""What programs of the tests note while they run, wherever their agents live."""

from __future__ import annotations

import os
from pathlib import Path

import ray

from runtime.settings import Settings


def log(of: str = "") -> Path:
    """A file for each process of the tests, whose namespace of Ray tells actors which it is.

    Args:
        of: a module whose Runtime lives longer than one test: its process may run tests of others meanwhile, which use the file
            without a name.
    """
    namespace = ray.get_runtime_context().namespace if ray.is_initialized() else Settings().namespace
    return Path(os.environ["ADK_TEST_LOGS"]) / f"{namespace}{of}"


def noted(line: str, of: str = "") -> None:
    with log(of).open("a") as file:
        file.write(line + "\n")


def noted_lines() -> list[str]:
    """What programs have noted in the log of the tests."""
    return log().read_text().splitlines()
