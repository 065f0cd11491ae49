"""The hooks of the plugin: options, engines, and the end of tests that hang.

Rules of this file: pytest imports it in every project that has raygrove installed, so what only tests of agents need is imported
when there is one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext

import pytest

from raygrove.plugin.fixtures import (
    frozen_clock,
    pattern_model,
    raygrove_engine,
    raygrove_module_runtimes,
    raygrove_ray,
    root_agent,
    runtime,
    script,
    scripted_model,
    start_runtime,
)
from raygrove.shadowing import hidden_packages

__all__ = [
    "frozen_clock",
    "pattern_model",
    "raygrove_engine",
    "raygrove_module_runtimes",
    "raygrove_ray",
    "root_agent",
    "runtime",
    "script",
    "scripted_model",
    "start_runtime",
]

ENGINE = "raygrove_engine"
"""The fixture that all tests with agents use."""

DEFAULT_TIMEOUT_S = "120"
"""The ini option `raygrove_timeout`, where it is not set."""

STARTING_S = 60.0
"""Setup and teardown may take this much longer than a test: they start and stop processes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini options."""
    parser.addini("raygrove_engines", "Engines of tests with agents: local, ray, or both.", type="args", default=["local"])
    parser.addini("raygrove_timeout", "Seconds that a test with agents may take; 0: any time.", default=DEFAULT_TIMEOUT_S)


def pytest_configure(config: pytest.Config) -> None:
    """Add the markers."""
    config.addinivalue_line(
        "markers",
        "raygrove(engines, scope, timeout, leaks, **options): the engines on which a test with agents runs, 'function' or "
        "'module' as the life of its Runtime, its timeout in seconds, whether leaks are looked for, and arguments of Runtime.",
    )
    config.addinivalue_line("markers", "patterns(*patterns, default): what the fixture pattern_model answers in this test.")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which file of the project hides a package, without which no test with agents can run."""
    for each in hidden_packages():
        terminalreporter.write_line(f"raygrove: {each}", yellow=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once on each of its engines. With a single engine its name stays as it is."""
    if ENGINE in metafunc.fixturenames:
        from raygrove.plugin.options import options_of

        try:
            engines = options_of(metafunc.definition, metafunc.config).engines
        except pytest.UsageError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        hidden = getattr(pytest, "HIDDEN_PARAM", None)
        ids = [hidden] if len(engines) == 1 and hidden is not None else list(engines)
        metafunc.parametrize(ENGINE, engines, ids=ids, indirect=True, scope="module")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """End a setup that hangs."""
    with _watched(item, "setup", STARTING_S):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """End a test that hangs."""
    with _watched(item, "test"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """End a teardown that hangs."""
    with _watched(item, "teardown", STARTING_S):
        return (yield)


def _watched(item: pytest.Item, phase: str, more_s: float = 0.0) -> AbstractContextManager[None]:
    """Ends a phase of a test with agents that takes longer than the test's timeout and `more_s`."""
    if ENGINE not in getattr(item, "fixturenames", ()):
        return nullcontext()
    from raygrove.plugin.options import options_of
    from raygrove.plugin.watch import watched

    timeout_s = options_of(item, item.config).timeout_s
    return watched(item, timeout_s + more_s if timeout_s else 0.0, phase)
