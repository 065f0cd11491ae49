"""Who may ask a model next: so many at once, so often a minute, all sessions by turns, and repetitions only out of a budget.

Rules of this file:

- There is no clock and no waiting here: whoever asks says what time it is, and is told who may go, and when to ask again.
- Sessions that wait have their turns one after the other, however many calls each of them has waiting: a session is served at
  the latest when every other one that waits has been served once.
- In no minute do more calls begin than `requests_per_minute` says. That is exact: the beginnings of the last minute are kept.
- What a call uses is known when it is over. So calls are held back as long as what was used in the last minute, and what those
  that are under way will use if they are like the others, reaches `tokens_per_minute`. It may be overshot by what is not like
  them. Before the first has told, there is one at a time.
- A repetition costs 1 out of a budget to which each call adds `retry_ratio`: a service that is in trouble is not asked many times
  over by everybody. It takes its place in the line again when its time has come.
- A service that says that it is asked too often is not asked by anybody for a while: as long as it says, or longer each time.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from fnmatch import fnmatchcase
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from actors.messages.limits import ModelLimits
from actors.rules.recovery.backoff import Backoff

MINUTE_S = 60.0

TOO_MANY_REQUESTS = 429
"""The HTTP status with which a service says that it is asked too often."""

RETRYABLE = frozenset({TOO_MANY_REQUESTS, 500, 502, 503, 504})
"""HTTP statuses that may be gone the next time."""

RENEW_S = 5.0
"""How often a process that holds permits, or waits for some, renews its lease."""

LEASE_S = 15.0
"""After this long without a renewal a process counts as gone, and its permits are free again."""

LONGEST_BACKOFF_S = 60.0
BACKOFF = Backoff(1.0, LONGEST_BACKOFF_S)
"""Waits before a call is repeated, unless the service says how long to wait."""

LONGEST_ADVICE_S = 120.0
"""A service that asks for more patience than this gets none: the call fails at once instead of hanging."""


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt has failed that may succeed the next time.

    Attributes:
        attempt: how many attempts of the call have failed, from 1.
        status: HTTP status; None when no answer came at all.
        retry_after_s: how long the service wants to be left alone; None when it does not say.
    """

    attempt: int
    status: int | None = None
    retry_after_s: float | None = None


class _Waiting(NamedTuple):
    due_s: float
    number: int
    permit: str
    session: Hashable


class RateLimiter:
    """The calls of one model, those under way and those that wait. See the head of this file.

    Attributes:
        counts: figures since it was made: calls that were granted, repetitions that were granted, and refused ones.
    """

    def __init__(self, limits: ModelLimits) -> None:
        self._limits = limits
        self._running: set[str] = set()
        # Sessions in the order of their turns, each with its calls.
        self._line: OrderedDict[Hashable, deque[str]] = OrderedDict()
        self._session_of: dict[str, Hashable] = {}
        # Repetitions whose time has not come.
        self._later: list[_Waiting] = []
        self._number = 0
        self._begun: deque[float] = deque()
        self._used: deque[tuple[float, int]] = deque()
        self._tokens = 0
        self._usual: float | None = None
        self._budget = float(limits.retry_reserve)
        self._paused_until_s = 0.0
        self._refused_in_a_row = 0
        self.counts = {"granted": 0, "retried": 0, "retries_refused": 0}

    # ------------------------------------------------------------------------------------------------- asking
    def ask(self, permit: str, session: Hashable) -> None:
        """A call wants to begin. Asked again, it keeps its place."""
        if permit not in self._running and permit not in self._session_of:
            self._budget = min(self._budget + self._limits.retry_ratio, max(self._limits.retry_reserve, 1.0))
            self._stand_in_line(permit, session)

    def _stand_in_line(self, permit: str, session: Hashable) -> None:
        self._session_of[permit] = session
        self._line.setdefault(session, deque()).append(permit)

    def retry(self, permit: str, session: Hashable, trouble: FailedAttempt, now_s: float, chance: float) -> bool:
        """An attempt has failed, and the call wants to be made again. It is over for now; False: for good.

        Args:
            chance: anything from 0 to 1: by how much its wait is shortened, to half of it at most. So a herd is spread.
        """
        self._running.discard(permit)
        wait_s = self._wait_s(trouble, chance)
        if trouble.status == TOO_MANY_REQUESTS and wait_s <= LONGEST_ADVICE_S:
            self._paused_until_s = max(self._paused_until_s, now_s + wait_s)
        if wait_s > LONGEST_ADVICE_S or trouble.attempt > self._limits.max_retries or self._budget < 1:
            self.counts["retries_refused"] += 1
            return False
        self._budget -= 1
        self.counts["retried"] += 1
        self._number += 1
        self._session_of[permit] = session
        heappush(self._later, _Waiting(now_s + wait_s, self._number, permit, session))
        return True

    def _wait_s(self, trouble: FailedAttempt, chance: float) -> float:
        times = trouble.attempt
        if trouble.status == TOO_MANY_REQUESTS:
            self._refused_in_a_row += 1
            times = max(times, min(self._refused_in_a_row, 16))
        if trouble.retry_after_s is not None:
            return trouble.retry_after_s
        return BACKOFF.after_attempts(times, chance)

    def hold(self, permit: str) -> None:
        """A call is under way that was granted by somebody who is not there any more."""
        self.give_up(permit)
        self._running.add(permit)

    # ------------------------------------------------------------------------------------------------- granting
    def grant(self, now_s: float) -> list[str]:
        """Who may begin now, in order."""
        self._forget(now_s)
        while self._later and self._later[0].due_s <= now_s:
            due = heappop(self._later)
            if due.permit in self._session_of:
                self._stand_in_line(due.permit, due.session)
        granted = []
        while self._line and self._has_room(now_s):
            session, calls = next(iter(self._line.items()))
            permit = calls.popleft()
            if calls:
                self._line.move_to_end(session)
            else:
                del self._line[session]
            del self._session_of[permit]
            self._running.add(permit)
            self._begun.append(now_s)
            granted.append(permit)
        self.counts["granted"] += len(granted)
        return granted

    def _has_room(self, now_s: float) -> bool:
        limits = self._limits
        if now_s < self._paused_until_s:
            return False
        if limits.max_concurrency is not None and len(self._running) >= limits.max_concurrency:
            return False
        if limits.requests_per_minute is not None and len(self._begun) >= limits.requests_per_minute:
            return False
        if limits.tokens_per_minute is None:
            return True
        if self._usual is None:
            return not self._running
        return self._tokens + self._usual * len(self._running) < limits.tokens_per_minute

    def wait_s(self, now_s: float) -> float | None:
        """When to ask again whom to grant, in seconds from now; None: when a call has ended, or another one asks."""
        times = [each.due_s for each in self._later[:1]]
        if self._line:
            times += [self._paused_until_s] if now_s < self._paused_until_s else []
            times += [self._begun[0] + MINUTE_S] if self._is_full() else []
            times += [self._used[0][0] + MINUTE_S] if self._used else []
        later = [time - now_s for time in times if time > now_s]
        return min(later) if later else None

    def _is_full(self) -> bool:
        return self._limits.requests_per_minute is not None and len(self._begun) >= self._limits.requests_per_minute

    def _forget(self, now_s: float) -> None:
        """Let go of what was more than a minute ago."""
        while self._begun and self._begun[0] + MINUTE_S <= now_s:
            self._begun.popleft()
        while self._used and self._used[0][0] + MINUTE_S <= now_s:
            self._tokens -= self._used.popleft()[1]

    # ------------------------------------------------------------------------------------------------- ending
    def end(self, permit: str, now_s: float, tokens: int = 0, *, answered: bool = True) -> None:
        """A call is over, or is not wanted any more.

        Args:
            answered: the service has answered it.
        """
        if permit in self._running:
            self._running.discard(permit)
            if answered:
                self._refused_in_a_row = 0
                self._note_use(now_s, tokens)
        else:
            self.give_up(permit)

    def _note_use(self, now_s: float, tokens: int) -> None:
        if self._limits.tokens_per_minute is not None:
            self._used.append((now_s, tokens))
            self._tokens += tokens
            self._usual = self._tokens / len(self._used)

    def give_up(self, permit: str) -> None:
        """Take a call out of the line."""
        session = self._session_of.pop(permit, None)
        calls = self._line.get(session)
        if calls is not None and permit in calls:
            calls.remove(permit)
            if not calls:
                del self._line[session]

    @property
    def running(self) -> int:
        """Calls that are under way."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return len(self._session_of)


def limits_of(model: str, limits: Mapping[str, ModelLimits]) -> ModelLimits | None:
    """The limits of a model: those under its name, or else under the first pattern that its name matches, if any."""
    if model in limits:
        return limits[model]
    return next((found for pattern, found in limits.items() if fnmatchcase(model, pattern)), None)
