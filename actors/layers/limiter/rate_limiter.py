"""Which calls of a model may begin: limited at a time and by the minute, fair between users, with retries from a budget.

Rules of this file:

- There is no clock and no waiting here: the caller passes the time, and learns which calls may begin and when to ask again.
- Users take turns, by their weights, and so do the sessions of each, however many calls they have waiting (`fair_queue.py`).
- In no minute do more calls begin than `requests_per_minute`. That is exact: the beginnings of the last minute are kept.
- What a call uses is known when it is over. So calls are held back while the tokens of the last minute, and what the running
  calls will use if they are average, reach `tokens_per_minute`. Calls above the average may overshoot it. Until the first call is
  over, calls run one at a time.
- A retry costs 1 from a budget to which each call adds `retry_ratio`, so that a service in trouble is not flooded with retries.
  It queues again when its backoff is over.
- A service that responds with 429 is not called by any session for a while: as long as it asks for, or longer each time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from actors.errors import ModelServiceError
from actors.layers.limiter.limits import ModelLimits
from actors.messages.session import SessionKey
from actors.rules.backoff import Backoff
from actors.rules.queues import FairQueue, weights

MINUTE_S = 60.0

TOO_MANY_REQUESTS = 429
"""The HTTP status with which a service says that it is called too often."""

RETRYABLE = frozenset({TOO_MANY_REQUESTS, 500, 502, 503, 504, 529})
"""HTTP statuses that may be gone the next time. Anthropic says with 529 that it is overloaded."""

RENEW_S = 5.0
"""How often a process that holds permits, or waits for some, renews its lease."""

LEASE_S = 15.0
"""After this long without a renewal a process counts as gone, and its permits are free again."""

LONGEST_BACKOFF_S = 60.0
BACKOFF = Backoff(1.0, LONGEST_BACKOFF_S)
"""Waits before a call is repeated, unless the service says how long to wait."""

MAX_RETRY_AFTER_S = 120.0
"""A call fails at once, instead of hanging, when the service wants it to wait longer than this."""

MAX_IN_A_ROW = 16
"""So many 429s in a row lengthen the backoff; further ones do not."""


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt has failed that may succeed the next time.

    Attributes:
        attempt: how many attempts of the call have failed, from 1.
        status: HTTP status; None when no response came at all.
        retry_after_s: how long the service wants to be left alone; None when it does not say.
    """

    attempt: int
    status: int | None = None
    retry_after_s: float | None = None


def failed_attempt(error: Exception, attempt: int) -> FailedAttempt | None:
    """The kind of failure of an attempt, by the type and the attributes of its error; None if repeating it would not help."""
    if isinstance(error, ModelServiceError):
        is_retryable = error.code is None or error.code in RETRYABLE
        return FailedAttempt(attempt=attempt, status=error.code, retry_after_s=error.retry_after_s) if is_retryable else None
    if isinstance(error, ConnectionError | TimeoutError):
        return FailedAttempt(attempt=attempt)
    # The name that most clients have for it.
    status = getattr(error, "status_code", None)
    return FailedAttempt(attempt=attempt, status=status) if status in RETRYABLE else None


class WaitingPlace(NamedTuple):
    """Where a call waits.

    Attributes:
        before: how many calls begin before it, if no other comes.
        repeats_in_s: seconds until its backoff is over; 0: it has none.
    """

    before: int
    repeats_in_s: float


class _Retry(NamedTuple):
    """A retry that waits for its backoff; the number keeps those due at the same time in order."""

    due_s: float
    number: int
    permit: str


class _Usage:
    """What the calls of the last minute have used.

    Attributes:
        tokens: in the last minute.
        average: of a call; None until the first one is over.
    """

    def __init__(self) -> None:
        self._by_call: deque[tuple[float, int]] = deque()
        self.tokens = 0
        self.average: float | None = None

    def add(self, now_s: float, tokens: int) -> None:
        """A call is over."""
        self._by_call.append((now_s, tokens))
        self.tokens += tokens
        self.average = self.tokens / len(self._by_call)

    def forget_older(self, now_s: float) -> None:
        """Drop the calls that ended more than a minute ago. The average stays until another call is over."""
        while self._by_call and self._by_call[0][0] + MINUTE_S <= now_s:
            self.tokens -= self._by_call.popleft()[1]

    def next_change_s(self) -> float | None:
        """When the oldest call will be a minute ago."""
        return self._by_call[0][0] + MINUTE_S if self._by_call else None


class RateLimiter:
    """The calls of one model: those that run, and those that wait for a permit.

    Args:
        user_weights: see `actors.messages.config.Limits`.

    Attributes:
        counts: permits granted, for calls and retries; retries accepted; retries refused.
    """

    def __init__(self, limits: ModelLimits, user_weights: Mapping[str, int] = MappingProxyType({})) -> None:
        self._limits = limits
        self._running: set[str] = set()
        self._waiting: FairQueue[str] = FairQueue(weights(user_weights))
        # Of each call that waits, also for its backoff.
        self._session_of: dict[str, SessionKey] = {}
        # A heap by due time.
        self._retries: list[_Retry] = []
        self._number = 0
        self._begun_s: deque[float] = deque()
        self._usage = _Usage()
        self._budget = float(limits.retry_reserve)
        self._paused_until_s = 0.0
        self._too_many_in_a_row = 0
        self.counts = {"granted": 0, "retried": 0, "retries_refused": 0}

    def change(self, limits: ModelLimits) -> None:
        """Go by other limits from now on. Calls that run go on, and count; what was used in the last minute does, too."""
        self._budget = max(0.0, self._budget + limits.retry_reserve - self._limits.retry_reserve)
        self._limits = limits

    def enqueue(self, permit: str, session: SessionKey) -> None:
        """Have a call wait for its permit. One that waits already keeps its place."""
        if permit not in self._running and permit not in self._session_of:
            self._budget = min(self._budget + self._limits.retry_ratio, max(self._limits.retry_reserve, 1.0))
            self._enqueue(permit, session)

    def _enqueue(self, permit: str, session: SessionKey) -> None:
        self._session_of[permit] = session
        self._waiting.add(permit, session.user, session)

    def retry(self, permit: str, session: SessionKey, failed: FailedAttempt, now_s: float, chance: float) -> bool:
        """End a failed attempt, and have the call wait to be repeated; False if it may not be.

        Args:
            chance: from 0 to 1; shortens the backoff, at 1 to half, so that calls which failed together are spread.
        """
        self._running.discard(permit)
        wait_s = self._backoff_s(failed, chance)
        if failed.status == TOO_MANY_REQUESTS and wait_s <= MAX_RETRY_AFTER_S:
            self._paused_until_s = max(self._paused_until_s, now_s + wait_s)
        if wait_s > MAX_RETRY_AFTER_S or failed.attempt > self._limits.max_retries or self._budget < 1:
            self.counts["retries_refused"] += 1
            return False
        self._budget -= 1
        self.counts["retried"] += 1
        self._number += 1
        self._session_of[permit] = session
        heappush(self._retries, _Retry(now_s + wait_s, self._number, permit))
        return True

    def _backoff_s(self, failed: FailedAttempt, chance: float) -> float:
        attempts = failed.attempt
        if failed.status == TOO_MANY_REQUESTS:
            self._too_many_in_a_row += 1
            attempts = max(attempts, min(self._too_many_in_a_row, MAX_IN_A_ROW))
        if failed.retry_after_s is not None:
            return failed.retry_after_s
        return BACKOFF.after_attempts(attempts, chance)

    def hold_permit(self, permit: str) -> None:
        """Count a running call that was granted by a limiter before this one."""
        self.withdraw(permit)
        self._running.add(permit)

    def grant(self, now_s: float) -> list[str]:
        """Grant all permits that can be granted now, and return them in order."""
        self._forget(now_s)
        while self._retries and self._retries[0].due_s <= now_s:
            due = heappop(self._retries)
            session = self._session_of.get(due.permit)
            if session is not None:
                self._enqueue(due.permit, session)
        granted = []
        while self._waiting and self._has_room(now_s):
            permit = self._waiting.take()
            del self._session_of[permit]
            self._running.add(permit)
            self._begun_s.append(now_s)
            granted.append(permit)
        self.counts["granted"] += len(granted)
        return granted

    def _has_room(self, now_s: float) -> bool:
        limits = self._limits
        if now_s < self._paused_until_s or self._is_minute_full():
            return False
        if limits.max_concurrency is not None and len(self._running) >= limits.max_concurrency:
            return False
        if limits.tokens_per_minute is None:
            return True
        if self._usage.average is None:
            return not self._running
        return self._usage.tokens + self._usage.average * len(self._running) < limits.tokens_per_minute

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until `grant` may grant more; None if only the end of a call, or another call, can change that."""
        times = [each.due_s for each in self._retries[:1]]
        if self._waiting:
            times += [self._paused_until_s] if now_s < self._paused_until_s else []
            times += [self._begun_s[0] + MINUTE_S] if self._is_minute_full() else []
            usage_changes_s = self._usage.next_change_s()
            times += [usage_changes_s] if usage_changes_s is not None else []
        later = [time - now_s for time in times if time > now_s]
        return min(later) if later else None

    def _is_minute_full(self) -> bool:
        return self._limits.requests_per_minute is not None and len(self._begun_s) >= self._limits.requests_per_minute

    def _forget(self, now_s: float) -> None:
        """Drop what was more than a minute ago."""
        while self._begun_s and self._begun_s[0] + MINUTE_S <= now_s:
            self._begun_s.popleft()
        self._usage.forget_older(now_s)

    def end_call(self, permit: str, now_s: float, tokens: int = 0, *, answered: bool = True) -> None:
        """End a running call, or take a waiting one out of its queue.

        Args:
            answered: the service has responded.
        """
        if permit in self._running:
            self._running.discard(permit)
            if answered:
                self._too_many_in_a_row = 0
                # Also without a limit of tokens: it may get one.
                self._usage.add(now_s, tokens)
        else:
            self.withdraw(permit)

    def withdraw(self, permit: str) -> None:
        """Take a waiting call out of its queue."""
        self._session_of.pop(permit, None)
        self._waiting.remove(permit)

    def places(self, session: SessionKey, now_s: float) -> dict[str, WaitingPlace]:
        """Where the calls of a session wait, by permit. The cost grows with the number of calls that wait."""
        due_s = {each.permit: each.due_s for each in self._retries}
        return {
            permit: WaitingPlace(self._waiting.before(permit) if permit in self._waiting else 0, due_s.get(permit, now_s) - now_s)
            for permit, owner in self._session_of.items()
            if owner == session
        }

    @property
    def running(self) -> int:
        """Calls that run."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return len(self._session_of)
