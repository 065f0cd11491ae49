"""The turns that were asked for and have not begun, within bounds: beyond them the answer is no, and when to ask again.

Rules of this file:

- There is a line of each session, of each user and of the deployment, and each is bounded by number; those of users and of the
  deployment by the bytes of their messages, too. A line in which nothing waits takes any message.
- A turn is in its lines once, however often it is asked for meanwhile.
- Who is refused may come again after as long as the first in that line has waited: so long, about, takes what is before him.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from actors.errors import OverloadedError
from actors.messages.limits import Limits
from actors.messages.session import TurnKey

MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0


class _Bound(msgspec.Struct, frozen=True, gc=False):
    """How much may wait in a line, whose line that is, and the settings that say so; no bytes: any number."""

    whose: str
    turns: int
    setting: str
    bytes: int | None = None
    setting_of_bytes: str = ""


class _Waiting(msgspec.Struct, eq=False):
    """A turn that waits, since when, the bytes of its message, in which lines, and for how many requests."""

    since_s: float
    size: int
    lines: tuple[_Line, _Line, _Line]
    requests: int = 1


class _Line(msgspec.Struct, eq=False):
    """Turns that wait, the oldest first, within a bound, and the bytes of their messages."""

    bound: _Bound
    turns: dict[TurnKey, _Waiting] = {}
    size: int = 0

    @property
    def oldest_s(self) -> float:
        """Since when the first one waits."""
        return next(iter(self.turns.values())).since_s


class Backlog:
    """The lines of one Runner."""

    def __init__(self, limits: Limits) -> None:
        self._of_session = _Bound("session {0.session!r}", limits.max_waiting_session_turns, "max_waiting_session_turns")
        self._of_user = _Bound(
            "user {0.user!r}",
            limits.max_waiting_user_turns,
            "max_waiting_user_turns",
            limits.max_waiting_user_bytes,
            "max_waiting_user_bytes",
        )
        of_all = _Bound(
            "this deployment",
            limits.max_waiting_turns,
            "max_waiting_turns",
            limits.max_waiting_bytes,
            "max_waiting_bytes",
        )
        # Of sessions, and of users by their ids.
        self._lines: dict[Hashable, _Line] = {}
        self._all = _Line(of_all)

    def __len__(self) -> int:
        """The number of turns that wait."""
        return len(self._all.turns)

    def __contains__(self, turn: TurnKey) -> bool:
        return turn in self._all.turns

    def refusal(self, turn: TurnKey, size: int, now_s: float) -> OverloadedError | None:
        """Why a turn cannot wait, if it cannot.

        Args:
            size: bytes of its message.
        """
        if turn in self._all.turns:
            return None
        key, line_of = turn[0], self._lines.get
        for line in (line_of(key), line_of(key.user), self._all):
            if line is None or not line.turns:
                continue
            bound = line.bound
            if len(line.turns) >= bound.turns:
                full, setting = f"{len(line.turns)} turns", bound.setting
            elif bound.bytes is not None and line.size + size > bound.bytes:
                full, setting = f"{line.size} bytes", bound.setting_of_bytes
            else:
                continue
            return OverloadedError(bound.whose.format(key), full, setting, retry_after_s(now_s - line.oldest_s))
        return None

    def add(self, turn: TurnKey, size: int, now_s: float) -> None:
        """A turn waits, for one more request."""
        waiting = self._all.turns.get(turn)
        if waiting is not None:
            waiting.requests += 1
            return
        key, lines = turn[0], self._lines
        of_session, of_user = lines.get(key), lines.get(key.user)
        if of_session is None:
            of_session = lines[key] = _Line(self._of_session)
        if of_user is None:
            of_user = lines[key.user] = _Line(self._of_user)
        waiting = _Waiting(now_s, size, (of_session, of_user, self._all))
        for line in waiting.lines:
            line.turns[turn] = waiting
            line.size += size

    def remove(self, turn: TurnKey) -> None:
        """A request for a turn is over."""
        waiting = self._all.turns[turn]
        if waiting.requests > 1:
            waiting.requests -= 1
            return
        for line in waiting.lines:
            del line.turns[turn]
            line.size -= waiting.size
        of_session, of_user, _ = waiting.lines
        if not of_session.turns:
            del self._lines[turn[0]]
        if not of_user.turns:
            del self._lines[turn[0].user]


def line_is_full(turns: int, waited_s: float) -> OverloadedError:
    """The refusal of the line of a deployment in which so many turns wait, the first of them for so long."""
    return OverloadedError("this deployment", f"{turns} turns", "max_waiting_turns", retry_after_s(waited_s))


def retry_after_s(waited_s: float) -> float:
    """When one that is refused may come again, in seconds: after as long as the first in the line has waited, within bounds."""
    return round(min(max(waited_s, MIN_RETRY_S), MAX_RETRY_S), 1)
