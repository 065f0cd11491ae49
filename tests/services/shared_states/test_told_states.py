"""Two Session actors that tell each other of changes of states that sessions share: turns ask the store for what was changed."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator

import pytest

from actors.interfaces.stores import PutState
from actors.layers import sharing
from actors.layers.sharing import WatchStates
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support import inside
from tests.support.session_pair import SHARDS, SessionPair
from tests.support.sharded_runtimes import one_session_per_shard, own_tables

_apps = itertools.count()


@pytest.fixture(scope="module")
def url(server: str) -> str:
    return own_tables(server)


@pytest.fixture
def pair(url: str) -> Iterator[SessionPair]:
    made = SessionPair(url, are_told=True)
    yield made
    made.close()


def sessions(user: str = "ada", app: str = "") -> list[SessionKey]:
    """A session of each shard, of an app of its own."""
    app = app or f"told-{next(_apps)}"
    return [SessionKey(app, user, name) for name in one_session_per_shard(app, user, SHARDS)]


def test_turns_ask_the_store_only_for_what_another_shard_has_changed(pair: SessionPair) -> None:
    of_ada = sessions()
    of_bob = sessions("bob", of_ada[0].app)

    async def looks_of(*turns: SessionKey) -> int:
        before = pair.looks
        for key in turns:
            await pair.turn(key)
        return pair.looks - before

    async def run() -> None:
        await pair.settle(*of_ada, *of_bob)
        assert await looks_of(*of_ada * 5, *of_bob * 5) == 0
        await pair.turn(of_ada[0], {"user:a": 1})
        assert await looks_of(of_ada[0], *of_bob) == 0
        assert await looks_of(of_ada[1]) == 1
        assert await looks_of(of_ada[1]) == 0
        await pair.turn(of_bob[1], {"app:a": 2})
        assert await looks_of(of_bob[0]) == 1
        assert await pair.turn(of_ada[0]) == {"user:a": 1, "app:a": 2}

    pair.loop.run(run())


def test_a_new_session_asks_for_the_session_alone(pair: SessionPair) -> None:
    keys = sessions()

    async def run() -> None:
        await pair.settle(*keys)
        await pair.turn(keys[0], {"user:a": 1})
        before = pair.looks
        new = [SessionKey(keys[0].app, "ada", f"new-{number}") for number in range(8)]
        assert [await pair.turn(key) for key in new] == [{"user:a": 1}] * len(new)
        assert pair.looks - before == 1

    pair.loop.run(run())


@pytest.mark.parametrize("is_lost", [False, True], ids=["silent", "lost"])
def test_a_change_waits_for_a_shard_that_does_not_answer_until_that_asks_the_store_again(
    pair: SessionPair, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    # It asks for leases all the time, and gets none before it has heard of the change.
    monkeypatch.setattr(sharing, "LEASE_S", 0.3)
    inside.change(monkeypatch, "leases", RENEW_S=0.01)
    keys = sessions()
    pair.peer_links[1].is_lost = is_lost

    async def run() -> None:
        for number in range(2):
            await pair.settle(*keys)
            pair.peer_links[1].is_cut = True
            await pair.turn(keys[0], {"user:a": number})
            assert (await pair.turn(keys[1]))["user:a"] == number
            # It has no lease now, so nothing waits for it.
            await asyncio.wait_for(pair.turn(keys[0], {"user:b": number}), 30)
            assert (await pair.turn(keys[1]))["user:b"] == number
            pair.peer_links[1].is_cut = False

    pair.loop.run(run())


def test_a_change_that_is_told_during_a_look_at_the_store_is_looked_for_again(pair: SessionPair) -> None:
    keys = sessions()

    async def run() -> None:
        await pair.settle(*keys)
        await pair.turn(keys[0], {"user:a": 1})
        store = pair.stores[1]
        store.held, store.let_go = held, let_go = threading.Event(), threading.Event()
        looking = asyncio.create_task(pair.turn(keys[1]))
        await asyncio.to_thread(held.wait, 30)
        await pair.turn(keys[0], {"user:a": 2})
        store.held = None
        let_go.set()
        assert await looking == {"user:a": 1}
        assert await pair.turn(keys[1]) == {"user:a": 2}

    pair.loop.run(run())


def test_what_a_shard_has_stored_and_told_nobody_is_told_by_its_successor(pair: SessionPair, url: str) -> None:
    keys = sessions()

    async def run() -> None:
        await pair.settle(*keys)
        lost = SqlSessionStore(url)
        lost.open()
        lost.commit([PutState(SessionKey(keys[0].app, "ada", ""), {"a": 1})])
        lost.close()
        assert await pair.turn(keys[1]) == {}
        pair.succeed(0)
        found = (await pair.session.ask(p.GetSessionRequest(key=keys[0]))).session
        assert found is not None
        assert found.state == {"user:a": 1}
        assert await pair.turn(keys[1]) == {"user:a": 1}

    pair.loop.run(run())


def test_a_successor_waits_for_leases_that_the_lost_one_has_given(pair: SessionPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LEASE_S", 0.3)
    keys = sessions()

    async def run() -> None:
        await pair.settle(*keys)
        pair.peer_links[1].is_cut = True
        pair.succeed(0)
        await pair.turn(keys[0], {"user:a": 1})
        assert await pair.turn(keys[1]) == {"user:a": 1}

    pair.loop.run(run())


def test_one_that_was_replaced_gives_no_lease(pair: SessionPair, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside.change(monkeypatch, "leases", VERIFIED_S=0.0)
    keys = sessions()

    async def run() -> None:
        await pair.settle(*keys)
        first = pair.session.shards[0]
        assert (await first.ask(WatchStates(shard=1))).for_s > 0
        other = SqlSessionStore(url)
        other.open()
        other.claim(pair.writer(0))
        other.close()
        assert (await first.ask(WatchStates(shard=1))).for_s == 0

    pair.loop.run(run())
