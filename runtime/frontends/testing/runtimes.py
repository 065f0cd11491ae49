"""Starts the Runtimes of a test and closes them: with stores in the test's folder, and small where they live on Ray."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from actors.errors import DefinitionError, RuntimeClosedError
from actors.errors.hints import did_you_mean
from runtime.driver.runtime import Runtime
from runtime.frontends.testing.leaks import LeakCheck
from runtime.settings import PREFIX, Settings

SMALL: Mapping[str, Any] = {"spare_hosts": 0, "max_live_agents": 1}
"""Settings on Ray, unless the test or the environment has others: the start of a process is most of what a test costs there."""


class TestRuntimes:
    """The Runtimes of one test, or of one module. They use the same stores, so that a second one finds what the first has left.

    Args:
        engine: "local" or "ray".
        folder: for the stores.
        options: arguments of every Runtime; `settings` may be a dictionary.
        leaks: whether to look for what they have left; a list names threads that may stay.
    """

    __test__ = False

    def __init__(self, engine: str, folder: Path, options: Mapping[str, Any], leaks: bool | Sequence[str] = True) -> None:
        self.engine = engine
        self._folder = folder
        self._options = options
        self._open: list[tuple[Runtime, Settings, bool]] = []
        self._leaks = LeakCheck(() if leaks is True else leaks) if leaks is not False else None

    @property
    def open(self) -> list[Runtime]:
        """The Runtimes that were started and not closed, the oldest first."""
        return [runtime for runtime, _, _ in self._open]

    def start(self, root_agent: Any, **options: Any) -> Runtime:
        """Start a Runtime.

        Args:
            root_agent: the root of the tree, or a flow.
            options: arguments of this Runtime, which go before those of the marker.

        Raises:
            DefinitionError: an argument is unknown or wrong.
            RaygroveError: it cannot be started: see Runtime.start.
        """
        defaults: dict[str, Any] = {
            "app_name": "test",
            "engine": self.engine,
            "session_store": f"sqlite:///{self._folder}/sessions.db",
            "artifact_store": f"file://{self._folder}/artifacts",
        }
        given = {**defaults, **self._options, **options}
        _refuse_unknown(given)
        given["settings"] = self._settings(given["engine"], given.get("settings"))
        runtime = Runtime(root_agent, **given)
        runtime.start()
        self._open.append((runtime, given["settings"], bool(given.get("detached"))))
        return runtime

    def close(self) -> None:
        """Close the Runtimes that are open, the newest first, and look for what they have left.

        Raises:
            AssertionError: something is left.
            Exception: what closing one of them has raised; the others are closed as well.
        """
        errors: list[Exception] = []
        while self.open:
            runtime, settings, is_detached = self._open.pop()
            if self._leaks is not None:
                self._leaks.note(runtime, settings)
            try:
                if is_detached:
                    with suppress(RuntimeClosedError):
                        runtime.shutdown()
                else:
                    runtime.close()
            except Exception as error:
                # The others have to be closed as well.
                errors.append(error)
        if errors:
            raise errors[0]
        if self._leaks is not None:
            self._leaks.check()

    def _settings(self, engine: str, given: Settings | Mapping[str, Any] | None) -> Settings:
        if isinstance(given, Settings):
            return given
        small = {name: value for name, value in SMALL.items() if f"{PREFIX}{name}".upper() not in os.environ}
        return Settings(**{"data_dir": self._folder, **(small if engine == "ray" else {}), **(given or {})})


@contextmanager
def opened(
    engine: str, folder: Path, options: Mapping[str, Any], leaks: bool | Sequence[str], listed: list[TestRuntimes]
) -> Iterator[TestRuntimes]:
    """Runtimes that are closed at the end of the block.

    Args:
        listed: the object is in this list until it is closed.

    Raises:
        AssertionError: closed Runtimes have left something.
    """
    runtimes = TestRuntimes(engine, folder, options, leaks)
    listed.append(runtimes)
    try:
        yield runtimes
    finally:
        try:
            runtimes.close()
        finally:
            listed.remove(runtimes)


def own_or_shared(runtimes: TestRuntimes, root_agent: Any) -> Runtime:
    """The Runtime of a module: its first test starts it."""
    return runtimes.open[0] if runtimes.open else runtimes.start(root_agent)


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    known = [name for name in inspect.signature(Runtime).parameters if name != "root_agent"]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, ["engines", "scope", "timeout", "leaks", *known])
            raise DefinitionError(
                f"raygrove: a Runtime has no option {name!r}.{hint} The marker, and start_runtime, take: {', '.join(known)}"
            )
