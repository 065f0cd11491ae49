"""What programs of the tests note while they run, wherever their agents live."""

from __future__ import annotations

import os
from pathlib import Path

import ray

from runtime.settings import Settings


def log() -> Path:
    """A file for each process of the tests, whose namespace of Ray tells actors which it is."""
    namespace = ray.get_runtime_context().namespace if ray.is_initialized() else Settings().namespace
    return Path(os.environ["ADK_TEST_LOGS"]) / namespace


def noted(line: str) -> None:
    with log().open("a") as file:
        file.write(line + "\n")


def noted_lines() -> list[str]:
    """What programs have noted in the log of the tests."""
    return log().read_text().splitlines()
