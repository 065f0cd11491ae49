"""Which replica serves a session, where an agent moves in, which agents leave, and how many processes there are."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.interfaces.transport import HostLimit
from actors.layers.trees.process_groups import replica_of
from actors.messages.session import SessionKey
from actors.rules.sharding import shard_of
from runtime.cluster.rules.process_choice import (
    AGENTS_PER_HOST,
    HOST_BYTES,
    LEAST_HOSTS,
    Load,
    chosen,
    host_limit,
    least_used,
    leaving,
    memory_share,
    spares_wanted,
)
from runtime.settings import HOSTS_PER_CORE

GIB = 1024**3
Keys = st.builds(SessionKey, *[st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=9)] * 3)
Times = st.floats(0, 100)
Loads = st.lists(st.builds(Load, st.booleans(), st.booleans(), st.integers(0, 5), st.integers(0, 40), Times), min_size=1)


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
def test_an_agent_joins_the_fewest_in_use_of_those_that_have_memory_and_no_replica_of_it(loads: list[Load]) -> None:
    taken = loads[least_used(loads)]
    assert taken == min(loads)
    assert not taken.has_sibling or all(load.has_sibling for load in loads)
    equal = [load for load in loads if load[:2] == taken[:2]]
    assert not taken.is_short or all(load.is_short for load in loads if load.has_sibling == taken.has_sibling)
    assert taken.in_use == min(load.in_use for load in equal)


@given(Loads, st.integers(1, 60), st.booleans(), st.booleans())
def test_a_tree_that_fits_has_a_process_for_each_agent(loads: list[Load], limit: int, is_ready: bool, may_join: bool) -> None:
    taken = chosen(loads, limit=limit, agents=limit, is_ready=is_ready, may_join=may_join)
    assert (taken is None) == (len(loads) < limit)


@given(Loads, st.integers(1, 60), st.integers(0, 500), st.booleans(), st.booleans())
def test_there_are_never_more_processes_than_the_limit(
    loads: list[Load], limit: int, agents: int, is_ready: bool, may_join: bool
) -> None:
    taken = chosen(loads, limit=limit, agents=agents, is_ready=is_ready, may_join=may_join)
    if len(loads) >= limit:
        assert taken == least_used(loads)
    elif taken is not None:
        # Before all processes are there, an agent joins others only where that leaves the tree spread evenly.
        assert not is_ready
        assert agents > limit
        assert loads[taken].agents * limit < agents
        assert not loads[taken].has_sibling


def test_an_agent_of_a_tree_that_does_not_fit_waits_for_no_process_that_starts() -> None:
    loads = [Load(in_use=3, agents=3), Load(in_use=1, agents=24)]
    assert chosen(loads, limit=8, agents=200, is_ready=False, may_join=True) == 1
    assert chosen(loads, limit=8, agents=200, is_ready=True, may_join=True) is None
    assert chosen(loads, limit=8, agents=200, is_ready=False, may_join=False) is None
    full = [load._replace(agents=25) for load in loads]
    assert chosen(full, limit=8, agents=200, is_ready=False, may_join=True) is None
    assert chosen([], limit=8, agents=200, is_ready=False, may_join=True) is None


@given(st.lists(Times), st.integers(0, 2 * AGENTS_PER_HOST), st.booleans())
def test_agents_leave_only_when_there_are_too_many_or_memory_is_short(idle: list[float], in_use: int, is_short: bool) -> None:
    living = len(idle) + in_use
    out = leaving(idle, living=living, is_short=is_short)
    assert len(out) == len(set(out))
    if not is_short:
        assert len(out) == min(len(idle), max(0, living + 1 - AGENTS_PER_HOST))
    else:
        assert len(out) >= len(idle) / 2
    stay = [since for index, since in enumerate(idle) if index not in out]
    assert not out or not stay or max(idle[index] for index in out) <= min(stay)


@pytest.mark.parametrize(
    ("most", "without", "room", "wanted"),
    [(2, 10, 10, 2), (2, 1, 10, 1), (2, 10, 1, 1), (2, 0, 10, 1), (2, 10, 0, 1), (0, 10, 10, 0)],
)
def test_as_many_stand_ready_as_could_be_used(most: int, without: int, room: int, wanted: int) -> None:
    assert spares_wanted(most, without=without, room=room) == wanted


@pytest.mark.parametrize(
    ("memory_gib", "cores", "runners", "hosts", "reason"),
    [
        (16, 2, 1, LEAST_HOSTS, "as many as there always may be, for 2 cores and 16 GiB of memory"),
        (0, 0, 1, LEAST_HOSTS, "as many as there always may be, for 0 cores and 0 GiB of memory"),
        (64, 16, 1, 64, f"{HOSTS_PER_CORE} for each of 16 cores"),
        (64, 128, 1, 218, "as many as fit into half of 64 GiB of memory"),
        (64, 16, 2, 32, f"{HOSTS_PER_CORE} for each of 16 cores, shared by 2 Runners"),
    ],
)
def test_the_number_of_processes_goes_by_cores_and_by_memory(
    memory_gib: float, cores: float, runners: int, hosts: int, reason: str
) -> None:
    assert host_limit(None, memory_gib * GIB, cores, runners) == HostLimit(hosts, reason)
    assert host_limit(3, memory_gib * GIB, cores, runners) == HostLimit(3, "max_live_agents says so")


def test_all_processes_together_may_use_half_of_the_memory() -> None:
    assert memory_share(64 * GIB, 64) == GIB // 2
    assert memory_share(GIB, LEAST_HOSTS) == 2 * HOST_BYTES
