"""The turns that were asked for and have not begun, within bounds: beyond them the answer is no, and when to ask again.

Rules of this file:

- There is a line of each session, of each user and of the deployment, and each is bounded by number; those of users and of the
  deployment by the bytes of their messages, too. A line in which nothing waits takes any message.
- A turn is in its lines once, however often it is asked for meanwhile.
- Who is refused may come again after as long as the first in that line has waited: so long, about, takes what is before him.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

import msgspec

from actors.errors import OverloadedError
from actors.messages.limits import Limits
from actors.messages.session import TurnKey

MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0


class _Bound(NamedTuple):
    """How much may wait in a line, whose line that is, and the settings that say so; no bytes: any number."""

    whose: str
    turns: int
    setting: str
    bytes: int | None = None
    setting_of_bytes: str = ""


class _Waiting(msgspec.Struct, gc=False):
    """A turn that waits, since when, the bytes of its message, and for how many requests."""

    since_s: float
    size: int
    requests: int = 1


class _Line(msgspec.Struct):
    """Turns that wait, the oldest first, and the bytes of their messages."""

    turns: OrderedDict[TurnKey, _Waiting] = msgspec.field(default_factory=OrderedDict)
    size: int = 0

    @property
    def oldest_s(self) -> float:
        """Since when the first one waits."""
        return next(iter(self.turns.values())).since_s


class Backlog:
    """The lines of one Runner."""

    def __init__(self, limits: Limits) -> None:
        of_user = _Bound(
            "user {0.user!r}",
            limits.max_waiting_user_turns,
            "max_waiting_user_turns",
            limits.max_waiting_user_bytes,
            "max_waiting_user_bytes",
        )
        self._bounds = (
            _Bound("session {0.session!r}", limits.max_waiting_session_turns, "max_waiting_session_turns"),
            of_user,
            _Bound(
                "this deployment",
                limits.max_waiting_turns,
                "max_waiting_turns",
                limits.max_waiting_bytes,
                "max_waiting_bytes",
            ),
        )
        # Of sessions, and of users by their ids.
        self._lines: dict[Hashable, _Line] = {}
        self._all = _Line()

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
        for line, bound in zip((line_of(key), line_of(key.user), self._all), self._bounds, strict=True):
            if line is None or not line.turns:
                continue
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
        waiting = self._all.turns[turn] = _Waiting(now_s, size)
        self._all.size += size
        key, lines = turn[0], self._lines
        for owner in (key, key.user):
            line = lines.get(owner)
            if line is None:
                line = lines[owner] = _Line()
            line.turns[turn] = waiting
            line.size += size

    def remove(self, turn: TurnKey) -> None:
        """A request for a turn is over."""
        waiting = self._all.turns[turn]
        if waiting.requests > 1:
            waiting.requests -= 1
            return
        size = waiting.size
        del self._all.turns[turn]
        self._all.size -= size
        key, lines = turn[0], self._lines
        for owner in (key, key.user):
            line = lines[owner]
            del line.turns[turn]
            line.size -= size
            if not line.turns:
                del lines[owner]


def line_is_full(turns: int, waited_s: float) -> OverloadedError:
    """The refusal of the line of a deployment in which so many turns wait, the first of them for so long."""
    return OverloadedError("this deployment", f"{turns} turns", "max_waiting_turns", retry_after_s(waited_s))


def retry_after_s(waited_s: float) -> float:
    """When one that is refused may come again, in seconds: after as long as the first in the line has waited, within bounds."""
    return round(min(max(waited_s, MIN_RETRY_S), MAX_RETRY_S), 1)
