"""What the tests of this room share."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from runtime.engine.process import collector
from tests.support.fixtures.pool_fixture import FakeCluster


@pytest.fixture(autouse=True)
def collection_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that are made in the tests' own process do not change how it looks for garbage."""
    changed = {
        "freeze": lambda: None,
        "get_freeze_count": lambda: 1,
        "get_threshold": lambda: (700, 10, 10),
        "set_threshold": lambda *_: None,
        "callbacks": [],
    }
    monkeypatch.setattr(collector, "gc", SimpleNamespace(**{**vars(gc), **changed}))


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Fake processes. Their pools are closed when the test ends, and no process outlives them."""
    cluster = FakeCluster()
    yield cluster
    await cluster.close()
    assert not cluster.processes
