"""Two Session actors on one PostgreSQL server: the state of users and of the app has the writes of both, in one order."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Event, EventActions
from actors.errors import SessionExistsError, TooLargeError
from actors.interfaces.stores import PutState
from actors.messages import protocol as p
from actors.messages.codec import decode, encode
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from actors.rules.sharding import shard_of
from runtime.stores.sql.sessions import SqlSessionStore
from tests.services.test_sqlite_store import in_threads
from tests.support.session_pair import SHARDS, SessionPair
from tests.support.sharded_runtimes import one_session_per_shard, own_tables
from tests.support.stores.store_writes import APP, S1, event, fill_sessions, seqs
from tests.support.tries import tries

NAMES = ("app:a", "app:b", "user:a", "user:b")

_apps = itertools.count()


@pytest.fixture(scope="module")
def url(server: str) -> str:
    return own_tables(server)


deltas = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 99), min_size=1, max_size=len(NAMES))
rounds = st.lists(st.lists(st.tuples(st.integers(0, SHARDS - 1), deltas), min_size=1, max_size=5), max_size=4)


def is_one_order(before: dict[str, Any], changes: list[dict[str, Any]], after: dict[str, Any]) -> bool:
    """True when some order of the changes leads from one state to the other."""
    return any(
        after == {name: value for each in (before, *order) for name, value in each.items()}
        for order in itertools.permutations(changes)
    )


@pytest.fixture(scope="module", params=[True, pytest.param(False, marks=pytest.mark.full)], ids=["told", "asking"])
def pair(url: str, request: pytest.FixtureRequest) -> Iterator[SessionPair]:
    made = SessionPair(url, are_told=request.param)
    yield made
    made.close()


@settings(max_examples=tries(40))
@given(rounds)
def test_what_two_write_at_the_same_time_is_what_one_would_have_written(pair: SessionPair, rounds: list[Any]) -> None:
    pair.loop.run(_check(pair.session, f"app-{next(_apps)}", rounds))


async def _check(session: SessionRef, app: str, rounds: list[list[tuple[int, dict[str, int]]]]) -> None:
    keys = [SessionKey(app, "ada", name) for name in one_session_per_shard(app, "ada", SHARDS)]
    for key in keys:
        await session.ask(p.CreateSessionRequest(key=key))
    state: dict[str, Any] = {}
    events = itertools.count()

    def append(shard: int, delta: dict[str, int]) -> Any:
        number = next(events)
        event = Event(id=f"id-{number}", invocation_id=f"e-{number}", author="user", actions=EventActions(state_delta=delta))
        return session.append_event(p.AppendEventRequest(key=keys[shard], event=encode(event)))

    for changes in rounds:
        await asyncio.gather(*(append(shard, delta) for shard, delta in changes))
        seen = [(await session.ask(p.GetSessionRequest(key=key))).session for key in keys]
        first, *others = [info.state for info in seen if info is not None]
        assert others == [first] * (SHARDS - 1)
        assert is_one_order(state, [delta for _, delta in changes], first)
        state = first
    listed = (await session.ask(p.ListSessionsRequest(app=app))).sessions
    assert [info.state for info in listed] == [state] * SHARDS


class Written(NamedTuple):
    """A turn of a user, in a session of one shard, with what its message and its agent write."""

    user: str
    shard: int
    is_new: bool
    by_message: dict[str, int]
    by_agent: dict[str, int]


written = st.builds(
    Written,
    st.sampled_from(["ada", "bob"]),
    st.integers(0, SHARDS - 1),
    st.booleans(),
    st.just({}) | deltas,
    st.just({}) | deltas,
)


@settings(max_examples=tries(40))
@given(st.lists(st.lists(written, min_size=1, max_size=4), max_size=5))
def test_a_turn_sees_all_that_turns_before_it_have_written_in_any_shard(pair: SessionPair, rounds: list[list[Written]]) -> None:
    pair.loop.run(_take_turns(pair.session, f"app-{next(_apps)}", rounds))


async def _take_turns(session: SessionRef, app: str, rounds: list[list[Written]]) -> None:
    numbers = itertools.count()
    # What each state may have, by user and key: one value, or those of turns that were side by side.
    known: dict[tuple[str, str], set[int | None]] = {}

    async def turn(wanted: Written, may_see: dict[tuple[str, str], set[int | None]]) -> None:
        number = next(numbers)
        key = _session_of(app, wanted, f"-{number}" if wanted.is_new else "")
        message = Event(id=f"m-{number}", invocation_id=f"e-{number}", author="user", actions=_delta(wanted.by_message))
        asked = p.OpenTurn(
            key=key,
            invocation_id=f"e-{number}",
            event=encode(message),
            state_delta=wanted.by_message,
            runner="runner",
            auto_create=True,
        )
        begun = await session.open_turn(asked)
        assert isinstance(begun, p.TurnBegun)
        state = decode(begun.state, dict[str, int])
        for name in NAMES:
            assert state.get(name) in ({wanted.by_message[name]} if name in wanted.by_message else may_see[wanted.user, name])
        ref = p.TurnRef(key, f"e-{number}", begun.epoch, 0, begun.generation)
        said = Event(id=f"a-{number}", invocation_id=f"e-{number}", author="root", actions=_delta(wanted.by_agent))
        await session.ask(p.Append(turn=ref, events=[encode(said)], outcome=p.Finished(agent="root")))

    for number, turns in enumerate(rounds):
        # One turn of a session at a time.
        turns = list({(each.user, each.shard, each.is_new, number if each.is_new else 0): each for each in turns}.values())
        after = {at: set(values) for at, values in known.items()}
        for name in NAMES:
            for user in ("ada", "bob"):
                by = [each for each in turns if name.startswith("app:") or each.user == user]
                new = {delta[name] for each in by for delta in (each.by_message, each.by_agent) if name in delta}
                last: set[int | None] = {
                    (each.by_message | each.by_agent)[name] for each in by if name in each.by_message | each.by_agent
                }
                known[user, name] = known.get((user, name), {None}) | new
                after[user, name] = last or after.get((user, name), {None})
        await asyncio.gather(*(turn(each, known) for each in turns))
        known = after
        for user in ("ada", "bob"):
            seen = [await _state(session, _session_of(app, Written(user, shard, False, {}, {}), "")) for shard in range(SHARDS)]
            assert seen[0] == seen[1]
            for name in NAMES:
                assert seen[0].get(name) in known[user, name]
                known[user, name] = {seen[0].get(name)}


def _session_of(app: str, wanted: Written, end: str) -> SessionKey:
    """A session of the turn's shard, the same for all turns of the user unless it has an end of its own."""
    number = itertools.count()
    names = (f"s{each}{end}" for each in number)
    keys = (SessionKey(app, wanted.user, name) for name in names)
    return next(key for key in keys if shard_of(key, SHARDS) == wanted.shard)


def _delta(values: dict[str, int]) -> EventActions:
    return EventActions(state_delta=dict(values))


async def _state(session: SessionRef, key: SessionKey) -> dict[str, Any]:
    with suppress(SessionExistsError):
        await session.ask(p.CreateSessionRequest(key=key))
    found = (await session.ask(p.GetSessionRequest(key=key))).session
    assert found is not None
    return found.state


@pytest.fixture
def stores(url: str) -> Iterator[list[SqlSessionStore]]:
    made = [SqlSessionStore(url, lock_timeout_s=10) for _ in range(4)]
    for store in made:
        store.open()
    yield made
    for store in made:
        store.close()


def test_writers_of_the_same_keys_wait_for_each_other_and_never_in_a_circle(stores: list[SqlSessionStore]) -> None:
    app, user = SessionKey("circle", "", ""), SessionKey("circle", "ada", "")
    names = [f"key-{number}" for number in range(20)]

    def write(number: int) -> None:
        # Each actor writes in another order.
        order = names[number * 5 :] + names[: number * 5]
        order = order[::-1] if number % 2 else order
        for turn in range(50):
            values = {name: [number, turn] for name in order}
            scopes = (app, user) if number < 2 else (user, app)
            stores[number].commit([PutState(scope, values) for scope in scopes])

    assert in_threads([lambda number=number: write(number) for number in range(len(stores))]) == []
    of_app, of_user = stores[0].state("circle", "ada")
    # The last writer has written all keys.
    assert len({tuple(value) for value in (*of_app.values(), *of_user.values())}) == 1
    assert set(of_app) == set(of_user) == set(names)


def test_a_commit_that_would_carry_a_state_over_its_limit_stores_nothing(server: str) -> None:
    store = SqlSessionStore(own_tables(server), max_shared_bytes=100_000)
    store.open()
    store.claim("desk")
    scope = SessionKey(APP, "ada", "")
    fill_sessions(store, S1, length=1)
    store.commit([event(S1, 2), PutState(scope, {"k": "x" * 60_000})])
    for _ in range(2):
        with pytest.raises(TooLargeError):
            store.commit([event(S1, 3), PutState(scope, {"k2": "x" * 60_000})])
    assert seqs(store.events(S1)) == [1, 2]
    assert set(store.state(APP, "ada")[1]) == {"k"}
    store.commit([event(S1, 3), PutState(scope, {"k": "x" * 90_000})])
    assert seqs(store.events(S1)) == [1, 2, 3]
    store.close()


def test_many_writers_at_once_do_not_carry_a_state_over_its_limit(server: str) -> None:
    url, limit = own_tables(server), 100_000
    stores = [SqlSessionStore(url, max_shared_bytes=limit) for _ in range(8)]
    for store in stores:
        store.open()
    writes = [PutState(SessionKey("app", "ada", ""), {f"k{number}": "x" * 30_000}) for number in range(len(stores))]
    failed = in_threads([partial(store.commit, [write]) for store, write in zip(stores, writes, strict=True)])
    assert {type(error) for error in failed} == {TooLargeError}
    _, state = stores[0].state("app", "ada")
    assert len(state) == len(stores) - len(failed) == limit // 30_000
    # Room that was made can be used, and other users have their own.
    stores[0].commit([PutState(SessionKey("app", "ada", ""), {}, tuple(state))])
    stores[1].commit(
        [PutState(SessionKey("app", "ada", ""), {"k": "x" * 90_000}), PutState(SessionKey("app", "bob", ""), {"k": "x"})]
    )
    for store in stores:
        store.close()


def test_behind_another_connection_no_version_is_taken_for_the_one_of_before(server: str) -> None:
    store = SqlSessionStore(own_tables(server))
    store.open()
    store.commit([PutState(SessionKey(APP, "ada", ""), {"a": 1})])
    found = store.changed_states(APP, {"": -1, "ada": -1})
    known = {user: state.version for user, state in found.items()}
    assert store.changed_states(APP, known) == {}
    # It may be an older copy, in which other changes have led to the same versions.
    store.close()
    store.open()
    assert store.changed_states(APP, known) == found
    assert store.changed_states(APP, known) == {}
    store.close()
