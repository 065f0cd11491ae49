"""What tests of one model class share: servers on this machine, and models that wait no time before they ask again.

A module says of which class they are: `SERVER` takes replies, and `model_of` a server and settings.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Starts a server that gives these replies."""
    with ExitStack() as stack:
        yield lambda *replies: stack.enter_context(request.module.SERVER(replies))


@pytest.fixture
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Makes a model of a server."""
    made: list[Any] = []

    def build(server: Any, **settings: Any) -> Any:
        made.append(request.module.model_of(server, **{"api_key": "key-of-the-test", "retry_initial_delay_s": 0.0, **settings}))
        return made[-1]

    yield build
    for model in made:
        await model.aclose()
