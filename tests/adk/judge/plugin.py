"""The plugin: it turns a test's calls of a Runner into turns of a Runtime, and notes what became of each test."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.runners import Runner

from .names import give
from .turned import Bench

METHODS = ("run", "run_async", "run_live", "rewind_async")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--judge", choices=("plain", "root", "islands"), default="plain", help="by what the turns of tests run")
    parser.addoption("--judge-out", type=Path, help="the JSON file for what became of the tests")


def pytest_configure(config: pytest.Config) -> None:
    give()
    config.pluginmanager.register(Judge(config.getoption("--judge"), config.getoption("--judge-out"), config.rootpath))


class Judge:
    """Turns Runners while tests run.

    Args:
        mode: "plain" turns nothing and only notes which tests use a Runner; "root" uses Runtime(root), "islands" `from_adk`
            with islands.
        out: the file for the notes.
        folder: that of the tests: a call that does not stand below it is ADK's own.
    """

    def __init__(self, mode: str, out: Path, folder: Path) -> None:
        self._mode = mode
        self._out = out
        self._folder = str(folder)
        self._found: dict[str, dict[str, Any]] = {}
        self._bench = Bench(has_islands=mode == "islands")
        self._calls: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Turn the Runners of one test, and close what it has started."""
        self._calls = []
        self._bench = Bench(has_islands=self._mode == "islands")
        # A session fixture may hold a class that was patched before; the methods are looked up on the class.
        whole = {name: getattr(Runner, name) for name in METHODS}
        for name, method in whole.items():
            setattr(Runner, name, self._turned(name, method))
        try:
            return (yield)
        finally:
            for name, method in whole.items():
                setattr(Runner, name, method)
            self._bench.close()
            note = self._found.setdefault(item.nodeid, {})
            note.update(calls=self._calls, refused=self._bench.refused)

    def _turned(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(runner: Runner, *args: Any, **kwargs: Any) -> Any:
            if not sys._getframe(1).f_code.co_filename.startswith(self._folder):
                return method(runner, *args, **kwargs)
            self._calls.append(name)
            if self._mode == "plain":
                return method(runner, *args, **kwargs)
            return getattr(self._bench.runner(runner), name)(*args, **kwargs)

        return call

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended, and where it failed."""
        note = self._found.setdefault(report.nodeid, {})
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            note["outcome"] = "failed"
            note["error"] = (crash.message if crash is not None else str(report.longrepr))[:1_000]
        elif report.skipped and "outcome" not in note:
            note["outcome"] = "skipped"
        elif report.when == "call":
            note.setdefault("outcome", "passed")

    def pytest_sessionfinish(self) -> None:
        if self._out is not None:
            self._out.write_text(json.dumps(self._found, indent=1, sort_keys=True))
