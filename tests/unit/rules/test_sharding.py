"""Which of several actors serves a session: always the same one, each about as many, and few move when their number changes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.layers.sharing import may_share
from actors.messages.protocol.statistics import Statistics
from actors.messages.session import SessionKey, Shard
from actors.rules.sharding import all_shards, holds, shard_name, shard_of
from runtime.driver.services.deployment import by_agent

numbers = st.integers(1, 40)
keys = st.builds(SessionKey, st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
MANY = [SessionKey("app", f"user-{user}", f"session-{session}") for user in range(100) for session in range(100)]


def test_a_session_is_with_the_same_actor_in_every_process_and_every_version() -> None:
    found = [shard_of(SessionKey("support", "ada", f"s{number}"), 5) for number in range(12)]
    assert found == [3, 1, 2, 2, 2, 3, 3, 1, 0, 2, 0, 0]


@given(keys, numbers)
def test_each_session_is_held_by_exactly_one(key: SessionKey, number: int) -> None:
    assert [shard.index for shard in all_shards(number) if holds(shard, key)] == [shard_of(key, number)]


@given(keys, numbers)
def test_with_one_actor_more_a_session_stays_or_goes_to_that_one(key: SessionKey, number: int) -> None:
    assert shard_of(key, number + 1) in (shard_of(key, number), number)


@pytest.mark.parametrize("runners", range(1, 6))
@pytest.mark.parametrize("sessions", range(1, 6))
def test_two_shards_may_share_a_session_exactly_where_one_of_many_belongs_to_both(runners: int, sessions: int) -> None:
    found = {(shard_of(key, runners), shard_of(key, sessions)) for key in MANY[:2_000]}
    pairs = [(one, other) for one in all_shards(runners) for other in all_shards(sessions)]
    assert {(one.index, other.index) for one, other in pairs if may_share(one, other)} == found


@pytest.mark.parametrize("number", [2, 3, 4, 7, 16])
def test_each_actor_has_about_as_many_sessions(number: int) -> None:
    found = Counter(shard_of(key, number) for key in MANY)
    fair = len(MANY) / number
    assert len(found) == number
    assert all(0.85 * fair < count < 1.15 * fair for count in found.values())


def test_the_sessions_of_one_user_are_spread_too_and_every_part_of_the_key_counts() -> None:
    assert len({shard_of(SessionKey("app", "ada", f"s{number}"), 4) for number in range(50)}) == 4
    assert len({shard_of(SessionKey("app", f"u{number}", "s"), 4) for number in range(50)}) == 4
    assert len({shard_of(SessionKey(f"a{number}", "ada", "s"), 4) for number in range(50)}) == 4
    # The parts are kept apart.
    assert len({shard_of(SessionKey("a", "b" * number, "b" * (50 - number)), 1 << 10) for number in range(50)}) > 40


def test_one_alone_has_its_plain_name_and_everything() -> None:
    assert [shard_name("session", shard) for shard in all_shards(1)] == ["session"]
    assert [shard_name("session", shard) for shard in all_shards(3)] == ["session-0", "session-1", "session-2"]
    assert all(holds(Shard(), key) for key in MANY[:100])


def statistics(actor: str, pid: int, agent: str = "", *agents: Statistics, **counts: int) -> Statistics:
    return Statistics(actor=actor, agent=agent, pid=pid, counts=counts, agents=agents)


def test_statistics_of_several_actors_are_their_sums_with_each_beside() -> None:
    billing = [statistics("app/host/a-1", 5, "billing", runs=3), statistics("app/host/b-1", 6, "billing", runs=4)]
    root = statistics("app/host/b-2", 7, "root", runs=9)
    runners = [
        statistics("app/runner-0", 1, "", billing[0], turns=2, running=1),
        statistics("app/runner-1", 2, "", billing[1], root, turns=3),
    ]
    both = Statistics.joined(runners)
    assert both == Statistics(
        actor="app/runner", pid=0, counts={"turns": 5, "running": 1}, agents=[billing[0], billing[1], root], parts=runners
    )
    agents = by_agent(both.agents)
    assert agents["root"] == root
    assert (agents["billing"].actor, agents["billing"].counts, agents["billing"].parts) == (
        "billing",
        {"runs": 7},
        billing,
    )
    assert Statistics.joined(runners[:1]) is runners[0]
