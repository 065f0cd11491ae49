"""A Session actor renews its claim to its store while it lives, and learns by it that it was replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.errors import StoreUnavailableError, WriterReplacedError
from tests.support.fixtures.session_fixture import FailingStore, SessionFixture
from tests.support.polling import until


class HurriedStore(FailingStore):
    """Its claims are to be renewed all the time; `outcomes` are raised by the first renewals."""

    renew_s = 0.0

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.renewals = 0
        self.outcomes: list[Exception] = []

    def renew_claim(self) -> None:
        self.renewals += 1
        if self.outcomes:
            raise self.outcomes.pop(0)


async def fixture(folder: Path) -> tuple[SessionFixture, HurriedStore]:
    session = SessionFixture(folder, store=HurriedStore, writer="desk")
    await session.ref.open_store()
    assert isinstance(session.store, HurriedStore)
    return session, session.store


async def test_a_claim_is_renewed_until_the_actor_stops_also_when_that_fails_once(tmp_path: Path) -> None:
    session, store = await fixture(tmp_path)
    store.outcomes = [StoreUnavailableError("store", "it is away")]
    await asyncio.to_thread(until, lambda: store.renewals >= 3)
    await session.open()
    await session.ref.stop()
    renewals = store.renewals
    await session.ref.statistics()
    assert store.renewals == renewals


async def test_an_actor_that_was_replaced_learns_it_without_a_write(tmp_path: Path) -> None:
    session, store = await fixture(tmp_path)
    store.outcomes = [WriterReplacedError("desk")]
    await asyncio.to_thread(until, lambda: session.replaced)
    assert (session.replaced, store.renewals) == (1, 1)
    await session.ref.stop()
