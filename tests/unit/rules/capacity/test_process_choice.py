"""Which replica serves a session, which process is shared, and how many spare processes are kept."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.session import SessionKey
from actors.rules.capacity.process_choice import (
    HOST_BYTES,
    LEAST_HOSTS,
    Load,
    default_hosts,
    least_used,
    replica_of,
    spares_wanted,
)
from actors.rules.capacity.sharding import shard_of

GIB = 1024**3
Keys = st.builds(SessionKey, *[st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=9)] * 3)
Loads = st.lists(st.builds(Load, st.integers(0, 5), st.floats(0, 100)), min_size=1)


@given(Keys, st.integers(1, 9))
def test_a_session_has_one_replica_and_always_the_same(key: SessionKey, replicas: int) -> None:
    assert replica_of(key, replicas) == replica_of(SessionKey(key.app, key.user, key.session), replicas) < replicas


def test_the_replica_of_a_session_is_known_and_stays() -> None:
    # Another answer in another version would lead sessions to replicas that do not know them yet.
    assert [replica_of(SessionKey("app", "ada", f"s{number}"), 4) for number in range(8)] == [0, 1, 0, 3, 0, 0, 0, 2]


def test_sessions_are_spread_evenly_over_replicas() -> None:
    shares = Counter(replica_of(SessionKey("app", f"user{number % 7}", f"s{number}"), 4) for number in range(4_000))
    assert min(shares.values()) > 800


def test_the_sessions_of_one_shard_are_spread_over_all_replicas() -> None:
    keys = (SessionKey("app", "ada", f"s{number}") for number in range(4_000))
    shares = Counter(replica_of(key, 4) for key in keys if shard_of(key, 4) == 1)
    assert len(shares) == 4
    assert min(shares.values()) > 200


@given(Loads)
def test_room_is_made_where_the_fewest_are_in_use_and_then_where_nobody_was_for_longest(loads: list[Load]) -> None:
    chosen = loads[least_used(loads)]
    assert chosen.in_use == min(load.in_use for load in loads)
    assert chosen.used_s == min(load.used_s for load in loads if load.in_use == chosen.in_use)


@pytest.mark.parametrize(
    ("most", "without", "room", "wanted"),
    [(2, 10, 10, 2), (2, 1, 10, 1), (2, 10, 1, 1), (2, 0, 10, 1), (2, 10, 0, 1), (0, 10, 10, 0)],
)
def test_as_many_stand_ready_as_could_be_used(most: int, without: int, room: int, wanted: int) -> None:
    assert spares_wanted(most, without=without, room=room) == wanted


def test_agents_have_half_of_the_memory_but_room_for_some_in_any_case() -> None:
    assert default_hosts(0) == default_hosts(GIB) == LEAST_HOSTS
    assert default_hosts(64 * GIB) == 32 * GIB // HOST_BYTES == 218
