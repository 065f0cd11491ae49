"""What tests of single actors share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from actors import BaseAgent
from actors.interfaces.stores import ArtifactStore
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.session_fixture import SessionFixture

Build = Callable[..., RunnerFixture]


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[SessionFixture]:
    """A Session actor over a store in the test's own folder."""
    made = SessionFixture(tmp_path)
    yield made
    await made.ref.stop()


@pytest.fixture
async def desk(tmp_path: Path) -> SessionFixture:
    """A Session actor, which the test stops if it has to be stopped."""
    return SessionFixture(tmp_path)


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[SessionFixture]:
    """A Session actor that gives its store up almost at once."""
    made = SessionFixture(tmp_path, store_timeout_s=0.1)
    yield made
    await made.ref.stop()


@pytest.fixture
async def build(tmp_path: Path) -> AsyncIterator[Build]:
    """Makes all actors of a tree."""
    fixtures: list[RunnerFixture] = []

    def make(root: BaseAgent, artifacts: ArtifactStore | None = None) -> RunnerFixture:
        fixtures.append(RunnerFixture(root, tmp_path, artifacts))
        return fixtures[-1]

    yield make
    for fixture in fixtures:
        await fixture.close()
