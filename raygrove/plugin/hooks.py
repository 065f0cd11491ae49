"""The hooks of the plugin: options, engines, and the end of tests that hang."""

from __future__ import annotations

from collections.abc import Generator

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
from raygrove.plugin.options import add_ini_options, describe_markers, options_of
from raygrove.plugin.watch import watched
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

STARTING_S = 60.0
"""Setup and teardown may take this much longer than a test: they start and stop processes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini options."""
    add_ini_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Add the markers."""
    describe_markers(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which file of the project hides a package, without which no test with agents can run."""
    for each in hidden_packages():
        terminalreporter.write_line(f"raygrove: {each}", yellow=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once on each of its engines. With a single engine its name stays as it is."""
    if ENGINE in metafunc.fixturenames:
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
    with watched(item, _limit_s(item, STARTING_S), "setup"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """End a test that hangs."""
    with watched(item, _limit_s(item), "test"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """End a teardown that hangs."""
    with watched(item, _limit_s(item, STARTING_S), "teardown"):
        return (yield)


def _limit_s(item: pytest.Item, more_s: float = 0.0) -> float:
    """How long a phase of a test may take; 0: any time, as for tests without agents."""
    if ENGINE not in getattr(item, "fixturenames", ()):
        return 0.0
    timeout_s = options_of(item, item.config).timeout_s
    return timeout_s + more_s if timeout_s else 0.0
