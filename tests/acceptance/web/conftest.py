"""One server over a Runtime on the local engine for all tests of a module; each test has a user of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from runtime.driver.runtime import Runtime
from runtime.web import app_for
from tests.support.agents.web_agents import Gate, SteppedModel, desk
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, serving


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model waits for tests."""
    return tmp_path_factory.mktemp("gates")


@pytest.fixture(scope="module")
def rt(gates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """The Runtime that is served."""
    with Deploy("local", tmp_path_factory.mktemp("stores"))(desk(SteppedModel(gates)), app_name="desk") as rt:
        yield rt


@pytest.fixture(scope="module")
def url(rt: Runtime) -> Iterator[str]:
    """The URL of the server."""
    with serving(app_for(rt, keep_alive_s=0.2)) as url:
        yield url


@pytest.fixture
async def client(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the server."""
    async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """A user of the test's own."""
    return str(request.node.name)


@pytest.fixture
def gate(gates: Path, user: str) -> Iterator[Gate]:
    """Where the model waits for the test's user."""
    made = Gate(gates, user)
    yield made
    made.close()
