"""Sizes: which tool results are dropped, and when the state of a scope is full."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import InvalidIdError, TooLargeError
from actors.messages.codec import encode
from actors.messages.config import Limits
from actors.rules.checks import state as scopes
from actors.rules.checks.values import ENVELOPE, results_to_drop
from runtime import Settings
from tests.support.fixtures.session_fixture import SessionFixture


@given(st.lists(st.integers(0, 2_000), max_size=12), st.integers(0, 4_000))
def test_the_largest_answers_give_way_and_no_more_than_have_to(sizes: list[int], room: int) -> None:
    out = results_to_drop(sizes, Limits(max_event_bytes=ENVELOPE + room))
    kept = [size for index, size in enumerate(sizes) if index not in out]
    assert sum(kept) <= room or not kept
    if out:
        smallest = min(sizes[index] for index in out)
        assert all(size <= smallest for size in kept)
        assert sum(kept) + smallest > room


@pytest.mark.parametrize("seed", range(8))
async def test_state_is_let_in_exactly_as_long_as_it_fits(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    limit = random_.randrange(200, 1_500)
    session = SessionFixture(tmp_path, limits=Limits(max_state_bytes=limit))
    await session.open()
    state: dict[str, str] = {}
    for _ in range(40):
        delta = {f"{random_.choice(['', 'user:', 'app:'])}k{random_.randrange(8)}": "x" * random_.randrange(250)}
        would_be = max(len(encode(scope)) for scope in scopes.split({**state, **delta}))
        try:
            await session.say(session.event("root", state_delta=delta))
        except TooLargeError:
            assert would_be > limit
        else:
            assert would_be <= limit
            state |= delta
        assert await session.state() == state
    await session.ref.stop()


@pytest.mark.parametrize("wrong", [{"id": ""}, {"invocation_id": "e\n1"}, {"author": " root"}])
async def test_an_event_needs_ids_and_an_author(session: SessionFixture, wrong: dict[str, str]) -> None:
    await session.open()
    event = session.event("root", "said")
    with pytest.raises(InvalidIdError):
        await session.say(msgspec.structs.replace(event, **wrong))
    await session.say(event)
    assert session.positions() == [1, 2]


def test_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    # That of the tests.
    monkeypatch.delenv("RAYGROVE_RESULTS_WAIT_S")
    assert Settings().limits == Limits()
    monkeypatch.setenv("RAYGROVE_MAX_EVENT_BYTES", "70000")
    assert Settings().limits == Limits(max_event_bytes=70_000)
    with pytest.raises(ValueError, match="max_state_bytes"):
        Settings(max_state_bytes=1_000)
