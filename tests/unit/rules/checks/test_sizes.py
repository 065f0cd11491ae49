"""Sizes: which tool results are dropped, and when the state of a scope is full."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import InvalidIdError, TooLargeError
from actors.interfaces.records import SessionRow
from actors.messages.codec import encode
from actors.messages.event import Event, EventActions
from actors.messages.limits import Limits
from actors.messages.session import SessionKey
from actors.rules.checks import state as scopes
from actors.rules.checks.sizes import ENVELOPE, results_to_drop
from actors.session.admission import Admission
from actors.session.log.event_scan import new_event
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedState
from runtime import Settings

KEY = SessionKey("app", "ada", "s1")


@given(st.lists(st.integers(0, 2_000), max_size=12), st.integers(0, 4_000))
def test_the_largest_answers_give_way_and_no_more_than_have_to(sizes: list[int], room: int) -> None:
    out = results_to_drop(sizes, Limits(max_event_bytes=ENVELOPE + room))
    kept = [size for index, size in enumerate(sizes) if index not in out]
    assert sum(kept) <= room or not kept
    if out:
        smallest = min(sizes[index] for index in out)
        assert all(size <= smallest for size in kept)
        assert sum(kept) + smallest > room


def hot_log() -> SessionLog:
    row = SessionRow(key=KEY, head_seq=0, rewinds=0, authors=(), state={}, created_s=0.0, updated_s=0.0)
    return SessionLog(row, SharedState(), SharedState())


@given(st.integers(0, 2**32))
def test_state_is_let_in_exactly_as_long_as_it_fits(seed: int) -> None:
    random_ = random.Random(seed)
    limit = random_.randrange(200, 1_500)
    admission, hot = Admission(Limits(max_state_bytes=limit)), hot_log()
    for number in range(40):
        prefix = random_.choice(["", "user:", "app:"])
        delta = {f"{prefix}k{random_.randrange(8)}": "x" * random_.randrange(250)}
        raw, event = new_event(
            Event(id=f"i{number}", invocation_id="e-1", author="root", actions=EventActions(state_delta=delta))
        )
        split = scopes.split(delta)
        would_be = ({**hot.state, **split.session}, {**hot.user_state, **split.user}, {**hot.app_state, **split.app})
        try:
            admission.event(hot, raw, event)
        except TooLargeError:
            assert max(len(encode(scope)) for scope in would_be) > limit
        else:
            assert max(len(encode(scope)) for scope in would_be) <= limit
            hot.add(raw, event)


def test_an_event_needs_ids_and_an_author() -> None:
    good = Event(id="i", invocation_id="e-1", author="root")
    admission, hot = Admission(Limits()), hot_log()
    admission.event(hot, *new_event(good))
    for wrong in (
        Event(id="", invocation_id="e-1", author="root"),
        Event(id="i", invocation_id="e\n1", author="root"),
        Event(id="i", invocation_id="e-1", author=" root"),
    ):
        with pytest.raises(InvalidIdError):
            admission.event(hot, *new_event(wrong))


def test_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    # That of the tests.
    monkeypatch.delenv("RAYGROVE_RESULTS_WAIT_S")
    assert Settings().limits == Limits()
    monkeypatch.setenv("RAYGROVE_MAX_EVENT_BYTES", "70000")
    assert Settings().limits == Limits(max_event_bytes=70_000)
    with pytest.raises(ValueError, match="max_state_bytes"):
        Settings(max_state_bytes=1_000)
