"""What tests of direct connections share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.support.fixtures.direct_fixture import DirectFixture

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Both event loops: Ray's processes run uvloop where there is one."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@pytest.fixture(params=["unix", "tcp"])
async def direct(request: pytest.FixtureRequest) -> AsyncIterator[DirectFixture]:
    """Servers and clients on one kind of socket."""
    fixture = DirectFixture(request.param)
    yield fixture
    await fixture.close()
