"""The fixtures of the plugin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from raygrove.shadowing import hidden_packages

if TYPE_CHECKING:
    from actors.testing import PatternModel, ScriptedModel
    from raygrove.plugin.options import Options
    from runtime.driver.runtime import Runtime
    from runtime.frontends.testing.frozen_clock import FrozenClock
    from runtime.frontends.testing.runtimes import TestRuntimes

_OPEN = pytest.StashKey["list[TestRuntimes]"]()


@pytest.fixture(scope="session")
def raygrove_ray(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """One small local Ray for all tests of the run, and for all processes of pytest-xdist. Its address.

    It ends with the run, however that ends.
    """
    from runtime.frontends.testing.shared_ray import own_ray, ray_of_run

    worker = getattr(request.config, "workerinput", None)
    if worker is None:
        with own_ray() as address:
            yield address
        return
    # A worker's folder for temporary files is in that of the run.
    folder = tmp_path_factory.getbasetemp().parent / f"raygrove-{worker['testrunuid']}"
    with ray_of_run(folder, os.getppid(), worker["workerid"]) as address:
        yield address


@pytest.fixture(scope="module")
def raygrove_engine(request: pytest.FixtureRequest) -> str:
    """The engine of the test, "local" or "ray". With Ray it sees to it that there is one."""
    _refuse_hidden()
    if request.param == "ray":
        request.getfixturevalue("raygrove_ray")
    return str(request.param)


@pytest.fixture
def root_agent() -> Any:
    """The tree that `runtime` starts. Each project defines this fixture."""
    pytest.fail(
        "the fixture `runtime` needs a tree: define a fixture `root_agent` that returns it, in conftest.py or beside the test",
        pytrace=False,
    )


@pytest.fixture
def start_runtime(raygrove_engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Runtime]]:
    """Starts Runtimes: `start_runtime(root_agent, app_name="support")`. They are closed when the test is over.

    All of a test use the same stores, so that a second one finds what the first has left.
    """
    options = _options(request)
    if "frozen_clock" in request.fixturenames:
        options = replace(options, runtime={**options.runtime, "clock": request.getfixturevalue("frozen_clock")})
    with _runtimes(raygrove_engine, tmp_path, options, request.config) as runtimes:
        yield runtimes.start


@pytest.fixture(scope="module")
def raygrove_module_runtimes(
    raygrove_engine: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[TestRuntimes]:
    """The Runtimes that all tests of a module share."""
    options = _options(request)
    with _runtimes(raygrove_engine, tmp_path_factory.mktemp("raygrove"), options, request.config) as runtimes:
        yield runtimes


@pytest.fixture
def runtime(raygrove_engine: str, request: pytest.FixtureRequest) -> Runtime:
    """A Runtime with the tree of the fixture `root_agent`: of the test's own, or of its module with `scope="module"`."""
    from runtime.frontends.testing.runtimes import own_or_shared

    if _options(request).scope == "module":
        if "frozen_clock" in request.fixturenames:
            pytest.fail(
                "frozen_clock is of one test: its Runtime cannot be that of a module, leave out scope='module'", pytrace=False
            )
        shared: TestRuntimes = request.getfixturevalue("raygrove_module_runtimes")
        return own_or_shared(shared, request.getfixturevalue("root_agent"))
    start: Callable[..., Runtime] = request.getfixturevalue("start_runtime")
    return start(request.getfixturevalue("root_agent"))


@pytest.fixture(scope="module")
def scripted_model() -> ScriptedModel:
    """A ScriptedModel without replies, for the tree of a test or of a module. The fixture `script` gives it replies."""
    _refuse_hidden()
    from actors.testing import ScriptedModel

    return ScriptedModel([])


@pytest.fixture
def script(scripted_model: ScriptedModel) -> Callable[..., ScriptedModel]:
    """Gives `scripted_model` the replies of this test, before or after the Runtime was started: `script("Hello!", "Bye!")`.

    Replies that an earlier test has left, and the requests so far, are forgotten.
    """

    def restart(*replies: Any) -> ScriptedModel:
        scripted_model.restart(replies)
        return scripted_model

    restart()
    return restart


@pytest.fixture
def frozen_clock(raygrove_engine: str) -> FrozenClock:
    """A clock by which the Runtimes of the test wait, and which stands still: `frozen_clock.advance(seconds)` moves it."""
    from runtime.frontends.testing.frozen_clock import FrozenClock

    if raygrove_engine != "local":
        pytest.fail("frozen_clock is for engine 'local': on Ray each process has a clock of its own", pytrace=False)
    return FrozenClock()


@pytest.fixture
def pattern_model(request: pytest.FixtureRequest) -> PatternModel:
    """A PatternModel of what the marker says: `@pytest.mark.patterns(("invoice", "It is paid."), default="Hello!")`."""
    _refuse_hidden()
    from actors.testing import PatternModel

    mark = request.node.get_closest_marker("patterns")
    return PatternModel(mark.args, **mark.kwargs) if mark is not None else PatternModel([])


def open_runtimes(config: pytest.Config) -> list[Runtime]:
    """The Runtimes that fixtures have started and not closed yet."""
    return [runtime for runtimes in config.stash.get(_OPEN, []) for runtime in runtimes.open]


def _refuse_hidden() -> None:
    """Fail the test when a file of the project is in the place of one of our packages."""
    if hidden := hidden_packages():
        pytest.fail("\n".join(hidden), pytrace=False)


def _options(request: pytest.FixtureRequest) -> Options:
    from raygrove.plugin.options import options_of

    return options_of(request.node, request.config)


def _runtimes(engine: str, folder: Path, options: Options, config: pytest.Config) -> AbstractContextManager[TestRuntimes]:
    from runtime.frontends.testing.runtimes import opened

    return opened(engine, folder, options.runtime, options.leaks, config.stash.setdefault(_OPEN, []))
