"""Whether a failed model call is repeated, and after how long."""

from __future__ import annotations

from runtime.models.retries import RetryPolicy, retry_after_s


def test_waits_double_with_jitter_up_to_a_limit() -> None:
    policy = RetryPolicy(retries=12, initial_delay_s=1.0)
    for attempt, ceiling in [(1, 1.0), (2, 2.0), (3, 4.0), (12, 60.0)]:
        delays = {policy.delay_s(attempt, None) for _ in range(50)}
        assert all(delay is not None and ceiling / 2 <= delay <= ceiling for delay in delays)
        assert len(delays) > 1
    assert policy.delay_s(13, None) is None
    assert policy.delay_s(1, 7.5) == 7.5
    assert policy.delay_s(13, 0.0) is None


def test_advice_is_read_as_seconds_as_a_date_and_from_quota_errors() -> None:
    assert retry_after_s({"retry-after": "12"}, None) == 12.0
    assert retry_after_s({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, None, now_s=90.0) == 10.0
    assert retry_after_s({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, None, now_s=200.0) == 0.0
    assert retry_after_s({"Retry-After": "soon"}, None) is None
    assert retry_after_s({}, {"error": {"details": [{"x": 1}, {"retryDelay": "34.5s"}]}}) == 34.5
    assert retry_after_s(None, {"error": {"details": "none"}}) is None
    assert retry_after_s(None, "an error page") is None
