"""Logs that one agent has compiled for the next."""

from __future__ import annotations

import pytest

from actors.agent.views import MIN_EVENTS, FirstSight, SightKey, ViewMemory
from actors.messages.session import SessionKey
from actors.rules.eviction import OVERHEAD
from actors.rules.prompt.history import History

KEY = SightKey(SessionKey("app", "ada", "s"), None, latest_only=False)


def sight(size: int = 0, seq: int = MIN_EVENTS) -> FirstSight:
    return FirstSight(History("x"), seq, "g", size)


async def test_a_log_is_found_from_where_it_was_seen_only() -> None:
    sights, seen = ViewMemory().sights, sight()
    sights.keep(KEY, seen)
    assert sights.find(KEY) is seen
    others = [
        KEY._replace(session=SessionKey("other", "ada", "s")),
        KEY._replace(session=SessionKey("app", "bob", "s")),
        KEY._replace(branch="b"),
        KEY._replace(latest_only=True),
    ]
    assert [sights.find(other) for other in others] == [None] * 4


async def test_a_short_log_is_not_kept() -> None:
    sights = ViewMemory().sights
    sights.keep(KEY, sight(seq=MIN_EVENTS - 1))
    assert sights.find(KEY) is None


@pytest.mark.parametrize(("rooms", "kept"), [(2, [1, 2]), (3, [0, 1, 2]), (0, [2])])
async def test_the_log_used_least_recently_goes_first_and_the_latest_stays(rooms: int, kept: list[int]) -> None:
    memory = ViewMemory((OVERHEAD + 100) * rooms)
    keys = [KEY._replace(branch=str(number)) for number in range(3)]
    for key in keys:
        memory.sights.keep(key, sight(100))
    assert [number for number, key in enumerate(keys) if memory.sights.find(key) is not None] == kept
    assert memory.weight == (OVERHEAD + 100) * len(kept)
