"""What all tests share: one local Ray and one PostgreSQL for the whole run, and a folder of stores of its own for each test."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import hypothesis
import pytest
import ray
from _pytest.mark.expression import Expression
from ray._private import worker as ray_worker
from ray._private.node import Node

from runtime.cluster.ray.local_ray import starting_ray
from runtime.cluster.ray.process import hide_noise
from runtime.frontends.testing.shared_ray import ADDRESS, NICENESS
from runtime.settings import Settings
from tests.support.machine.folders import place_of_folders
from tests.support.machine.made_once import share_certificates, share_commands
from tests.support.machine.terminal import Tell
from tests.support.models.model_host import one_model_host
from tests.support.modules import IMPORTED
from tests.support.runtimes import Deploy
from tests.support.servers.postgres_server import NoPostgresError, PostgresServer, postgres, postgres_server, short_folder
from tests.support.stores.shared_dialect import share_compiled_queries
from tests.support.tries import tries

# How long an example takes says how busy the machine is, and nothing about the code.
hypothesis.settings.register_profile(
    "untimed", max_examples=tries(100), deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

DEFAULT_STORES = Path(".raygrove").absolute()
"""Where Runtimes keep what they store, unless another place is named."""

HAS_STARTED_RAY = pytest.StashKey[bool]()
"""Of a run: it has started the Ray that its processes share."""

BROWSER_TESTS = Path(__file__).with_name("browser")
"""Where all tests have the marker `browser`."""

ONE_IN_ON_RAY = 24
"""Of the acceptance tests of a folder that run on both engines, the ordinary run has one in so many on Ray."""

FULL_ONE_IN_ON_RAY = 15
"""Of the others the full set has one in so many on Ray; `make soak` has all."""

FULL_ONE_IN = 4
"""Of the cases of a `sampled` test that the ordinary run leaves out the full set has one in so many, unless `full` says it."""


def pytest_configure(config: pytest.Config) -> None:
    """Give every process of a distributed run a namespace of its own on one Ray, which the process started that runs no tests."""
    # What the collection of tests makes is there to the end: no cycles have to be looked for among 6,000 tests.
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell has started the tests in the background. Programs that they start would take no Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Each of the many Runtimes would start processes that no test needs. Those of the pool say so themselves.
    os.environ["RAYGROVE_SPARE_HOSTS"] = "0"
    # Calls that a test lets end together have one event, however busy the machine is. Tests of how they come one by one say so.
    os.environ.setdefault("RAYGROVE_RESULTS_WAIT_S", "10")
    # Ray lets its workers give way to other processes: on a machine that is busy they would hardly run at all.
    os.environ.setdefault(NICENESS, "0")
    # Stores in Ray's processes, and of programs that tests start, are as everywhere else.
    share_compiled_queries()
    share_commands()
    share_certificates()
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place_of_folders()))
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        os.environ["RAYGROVE_NAMESPACE"] = f"raygrove-{worker['workerid']}"
    elif getattr(config.option, "numprocesses", None):
        os.environ[ADDRESS] = _start_ray()
        config.stash[HAS_STARTED_RAY] = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folder of the tests in Chromium when the run selects none: each process would import playwright for them."""
    if collection_path != BROWSER_TESTS:
        return None

    def has(name: str, /, **_: object) -> bool:
        return name == "browser"

    return not Expression.compile(config.option.markexpr or "browser").evaluate(has) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave cases of what is marked `sampled` to the full set or to soak, and most acceptance tests of both engines on Ray."""
    seen, seen_of_full = Counter[str](), Counter[str]()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        group, one_in, full = item.nodeid.partition("[")[0], 1, 1
        if sampled is not None:
            is_of_module = sampled.kwargs.get("of") == "module"
            one_in = (sampled.args or (1,))[0]
            full = sampled.kwargs.get("full", 1 if is_of_module else FULL_ONE_IN)
            if is_of_module:
                group = str(item.path)
        if _is_acceptance_on_ray(item):
            # Also of what is sampled, where both engines take turns: every second one would be on Ray.
            group, one_in, full = str(item.path.parent), max(one_in, ONE_IN_ON_RAY), max(full, FULL_ONE_IN_ON_RAY)
        if seen[group] % one_in:
            item.add_marker("full")
        seen[group] += 1
        if item.get_closest_marker("full") is not None:
            if seen_of_full[group] % full:
                item.add_marker("soak")
            seen_of_full[group] += 1


def pytest_collection_finish() -> None:
    """From here on Python looks for cycles, among what the tests make, and as often as in the processes of agents."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Python looks for garbage only where the test does. What earlier tests have left goes first: threads may hold some of it."""
    while gc.collect():
        time.sleep(0.01)
    gc.disable()
    yield
    gc.enable()


def _is_acceptance_on_ray(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None or "acceptance" not in item.path.parts:
        return False
    return "ray" in (callspec.params.get("engine"), callspec.params.get("engine_name"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the shared Ray, in the run that has started it: a test may run others in its own process."""
    if config.stash.get(HAS_STARTED_RAY, False):
        ray.shutdown()


def _start_ray(address: str | None = None) -> str:
    hide_noise()
    # RAYGROVE_LOCAL_RAY=plain runs all tests on a Ray as it is on clusters.
    kind = Settings().local_ray
    imported = os.environ.get(IMPORTED, "").split()
    with starting_ray(kind, imported) if address is None else nullcontext(), pytest.MonkeyPatch.context() as patch:
        # It prints that a process has died that a test has killed, a while later: among the lines that another test compares.
        patch.setattr(ray_worker, "listen_error_messages", lambda worker, threads_stopped: None)
        if kind == "light":
            # It reads the logs of all workers again and again, for drivers that would print them; none here does.
            patch.setattr(Node, "start_log_monitor", lambda node: None)
        ray.init(
            # Not one that happens to be on this machine.
            address=address or "local",
            namespace=Settings().namespace,
            include_dashboard=False if address is None else None,
            log_to_driver=False,
            num_cpus=4 if address is None else None,
        )
    return str(ray.get_runtime_context().gcs_address)


_OF_LOCAL_RAY: dict[str, str] = {}
"""The variables that `local_ray` has set: a test may be the first to ask for it, in its body."""


@pytest.fixture(autouse=True)
def environment_that_stays() -> Iterator[None]:
    """Fail a test that leaves variables of Ray or of ours behind: other tests would run with them."""
    before = _variables()
    yield
    expected = before | _OF_LOCAL_RAY
    changed = {name for name, _ in _variables().items() ^ expected.items()}
    for name in changed:
        os.environ.pop(name, None)
    os.environ.update(expected)
    assert not changed, f"the test has left variables otherwise than before: {', '.join(sorted(changed))}"


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name == "HOME" or name.startswith(("RAY_", "RAYGROVE_"))}


@pytest.fixture(autouse=True)
def leaves_no_store() -> Iterator[None]:
    """A Runtime without a store of the test's own makes one in the folder that the tests run in, where the next run finds it."""
    was_there = DEFAULT_STORES.exists()
    yield
    assert was_there or not DEFAULT_STORES.exists(), f"a test has made {DEFAULT_STORES}: give its Runtime a session_store"


@pytest.fixture(scope="session")
def local_ray() -> Iterator[str]:
    """One Ray for all tests that need one. In a run of one process it is started by the first of them. Its address."""
    before = _variables()
    address = _start_ray(os.environ.get(ADDRESS))
    _OF_LOCAL_RAY.update(dict(_variables().items() - before.items()))
    yield address
    ray.shutdown()


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Writes a line to the terminal, whatever becomes of what the test prints."""

    def write(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")

    return write


@pytest.fixture(params=["local", "ray"])
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines, one after the other: what holds on one holds on the other."""
    if request.param == "ray":
        request.getfixturevalue("local_ray")
    return str(request.param)


@pytest.fixture
def deploy(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deploy]:
    """Makes a Runtime on the engine, with stores in the test's own folder.

    On Ray one process holds its agents, since the start of a process is most of what such a test costs. They speak to each other
    by way of the Runner and the Session actor, wherever they live. How agents are placed by default is tested in tests/cluster,
    and the vectors have them in two processes. Models with a state live in one process for all tests: tests/cluster has them in
    one of each deployment.
    """
    monkeypatch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
    with one_model_host() if engine == "ray" else nullcontext():
        yield Deploy(engine, tmp_path)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server that all tests share."""
    try:
        with short_folder(str(place_of_folders())) as folder, postgres(folder) as url:
            yield url
    except NoPostgresError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def own_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server that a test may stop, if it starts it again."""
    try:
        with short_folder(str(place_of_folders())) as folder, postgres_server(folder) as server:
            yield server
    except NoPostgresError as error:
        pytest.skip(str(error))
