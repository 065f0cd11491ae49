"""Services of models over HTTP: events in whatever pieces they come, and when failed calls are repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.models.failures import Pauses, RetryPolicy, retry_after_s
from runtime.models.http import ServerEvent, server_events

EVENTS = [
    ServerEvent("", b'{"a": 1}'),
    ServerEvent("error", "ä\u2028 b".encode()),
    ServerEvent("", b"first\nsecond"),
    ServerEvent("ping", b"{}"),
]
SENT = (
    b': a comment\n\ndata: {"a": 1}\r\n\r\nevent: error\nid: 7\ndata:'
    + "ä\u2028 b".encode()
    + b"\n\ndata: first\ndata: second\n\nevent: nothing\n\nevent: ping\ndata: {}\n\ndata: cut off"
)


@given(st.lists(st.integers(0, len(SENT)), max_size=12))
async def test_events_are_the_same_in_whatever_pieces_they_come(cuts: Sequence[int]) -> None:
    bounds = [0, *sorted(cuts), len(SENT)]

    async def pieces() -> AsyncIterator[bytes]:
        for begin, end in pairwise(bounds):
            yield SENT[begin:end]

    assert [event async for event in server_events(pieces())] == EVENTS


def test_waits_double_with_jitter_up_to_a_limit() -> None:
    policy = RetryPolicy(retries=12, initial_delay_s=1.0)
    for attempt, ceiling in [(1, 1.0), (2, 2.0), (3, 4.0), (12, 60.0)]:
        delays = {policy.delay_s(attempt, None) for _ in range(50)}
        assert all(delay is not None and ceiling / 2 <= delay <= ceiling for delay in delays)
        assert len(delays) > 1
    assert policy.delay_s(13, None) is None
    assert policy.delay_s(13, 0.0) is None


@pytest.mark.parametrize("attempt", [1, 2, 4])
def test_calls_that_were_told_the_same_wait_come_back_one_after_the_other(attempt: int) -> None:
    """A thousand of them: none too early, and no more in a tenth of the time than twice its share."""
    spread_s = 2.0 ** (attempt - 1)
    waits = [RetryPolicy(retries=4, initial_delay_s=1.0).delay_s(attempt, 7.5) for _ in range(1_000)]
    after_s = [wait - 7.5 for wait in waits if wait is not None]
    assert len(after_s) == 1_000
    assert min(after_s) >= 0
    tenths = Counter(int(each / spread_s * 10) for each in after_s)
    assert set(tenths) == set(range(10))
    assert max(tenths.values()) < 200


def test_what_one_call_was_told_holds_for_all_that_may_be_repeated_until_it_is_over() -> None:
    pauses, often, once = Pauses(), RetryPolicy(retries=4, initial_delay_s=1.0), RetryPolicy(retries=0, initial_delay_s=1.0)
    pauses.refused("m", 100.0, 5.0)
    pauses.refused("m", 101.0, 1.0)
    assert 4.0 <= pauses.wait_s("m", 101.0, often) <= 5.0
    assert [pauses.wait_s("m", 101.0, once), pauses.wait_s("other", 101.0, often), pauses.wait_s("m", 105.0, often)] == [0, 0, 0]
    pauses.refused("m", 106.0, 1e6)
    assert pauses.wait_s("m", 106.0, often) == 0


def test_advice_is_read_as_seconds_as_a_date_and_from_quota_errors() -> None:
    assert retry_after_s({"retry-after": "12"}, None) == 12.0
    assert retry_after_s({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, None, now_s=90.0) == 10.0
    assert retry_after_s({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, None, now_s=200.0) == 0.0
    assert retry_after_s({"Retry-After": "soon"}, None) is None
    assert retry_after_s({}, {"error": {"details": [{"x": 1}, {"retryDelay": "34.5s"}]}}) == 34.5
    assert retry_after_s(None, {"error": {"details": "none"}}) is None
    assert retry_after_s(None, "an error page") is None
