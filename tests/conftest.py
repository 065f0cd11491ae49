"""What all tests share: one local Ray for the whole run, and a folder of stores of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tests.helpers import Deploy


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """One Ray for all tests that need one. It is started by the first of them."""
    ray.init(address="local", namespace="raygrove", include_dashboard=False, log_to_driver=False, num_cpus=4)
    yield
    ray.shutdown()


@pytest.fixture(params=["local", "ray"])
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines, one after the other: what holds on one holds on the other."""
    if request.param == "ray":
        request.getfixturevalue("local_ray")
    return str(request.param)


@pytest.fixture
def deploy(engine: str, tmp_path: Path) -> Deploy:
    """Makes a Runtime on the engine, with stores in the test's own folder."""
    return Deploy(engine, tmp_path)
