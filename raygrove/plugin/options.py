"""What the marker `raygrove` and the ini options say about a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

MARKER = "raygrove"
"""The name of the marker."""

ENGINES = ("local", "ray")
"""The engines on which a test can run."""

SCOPES = ("function", "module")
"""How long a Runtime may live: for one test, or for all of a module."""


@dataclass(frozen=True)
class Options:
    """The options of a test, or of all tests of a module.

    Attributes:
        engines: the engines on which it runs, one after the other.
        scope: "function" for a Runtime of the test's own, "module" for one that all tests of the module share.
        timeout_s: how long each of setup, test and teardown may take; 0: any time.
        leaks: True looks for what closed Runtimes have left, False does not; a list names the threads that may stay.
        runtime: arguments of Runtime.
    """

    engines: Sequence[str]
    scope: str
    timeout_s: float
    leaks: bool | Sequence[str]
    runtime: Mapping[str, Any] = field(default_factory=dict)


def options_of(node: pytest.Item | pytest.Collector, config: pytest.Config) -> Options:
    """The options of a test or a module: what its marker says, then those of its class and its module, then the ini options.

    Raises:
        pytest.UsageError: an option is wrong.
    """
    given: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers(MARKER))):
        if mark.args:
            raise pytest.UsageError(
                f"the marker {MARKER} takes its options by name, not {mark.args[0]!r}: engines=['local', 'ray']"
            )
        given.update(mark.kwargs)
    return Options(
        engines=_engines(given.pop("engines", config.getini("raygrove_engines"))),
        scope=_scope(given.pop("scope", "function")),
        timeout_s=_timeout(given.pop("timeout", config.getini("raygrove_timeout"))),
        leaks=_leaks(given.pop("leaks", True)),
        runtime=given,
    )


def _engines(value: object) -> list[str]:
    engines = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    if not engines or any(each not in ENGINES for each in engines):
        raise pytest.UsageError(f"raygrove: engines are 'local', 'ray', or a list of both, not {value!r}")
    return engines


def _scope(value: object) -> str:
    if value not in SCOPES:
        raise pytest.UsageError(f"raygrove: scope is 'function' or 'module', not {value!r}")
    return str(value)


def _timeout(value: object) -> float:
    try:
        timeout_s = float(str(value))
    except ValueError:
        timeout_s = -1.0
    if not 0 <= timeout_s < float("inf"):
        raise pytest.UsageError(f"raygrove: timeout is a number of seconds, or 0 for any time, not {value!r}")
    return timeout_s


def _leaks(value: object) -> bool | list[str]:
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return list(value)
    raise pytest.UsageError(
        f"raygrove: leaks is True, False, or a list of threads that may stay, such as ['grpc*'], not {value!r}"
    )
