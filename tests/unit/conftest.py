"""What tests of single actors share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from actors import Agent
from actors.interfaces.stores import ArtifactStore
from tests.support.runner_fixture import House
from tests.support.session_fixture import SessionFixture

Build = Callable[..., House]


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[SessionFixture]:
    """A Session actor over a store in the test's own folder."""
    made = SessionFixture(tmp_path)
    yield made
    await made.ref.stop()


@pytest.fixture
async def build(tmp_path: Path) -> AsyncIterator[Build]:
    """Makes all actors of a tree."""
    houses: list[House] = []

    def make(root: Agent, artifacts: ArtifactStore | None = None) -> House:
        houses.append(House(root, tmp_path, artifacts))
        return houses[-1]

    yield make
    for house in houses:
        await house.close()
