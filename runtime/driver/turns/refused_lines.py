"""Turns that need not be asked for: the lines of this program's turns that are full, by its own count or by what was refused.

Rules for lines that have refused a turn:

- A refusal stands for its line only: that of a session, of a user, or of a Runner. One for the size of a message stands for none,
  since a smaller one may find room.
- A turn of this program that leaves the line makes room, so one may be asked for in its place. As long as more is wanted the line
  stays as full as it was, and hardly any request is made to be refused.
- Others leave the line, too, of which this program knows nothing: every `PROBE_S` one may be asked for beyond that.
- A line that has let everything through for `FORGET_S` is forgotten.
- A server lets requests through before it knows whose turns they ask for: no more of them than the line of a Runner has room for,
  as long as these may still come to ask, `PASSED_S`.

Rules for turns that have not begun, which fill the line of a Runner by themselves:

- A turn waits in its Runner from when it is asked for until it has begun. Its program learns of that later, so it counts each of
  its turns for at least as long as the Runner does.
- So where as many of this program's have not begun as may wait in the line, another one would be refused there, and is refused
  here. A program that asks for more than can begin knows it before the first of its turns has come to the Runner.
- Every `PROBE_S` one more is asked for, so that the Runner tells of what is refused, and nothing depends on this count alone.
- What a server has before it, unread, will be asked for. Whose turns these are is not known, so they count for all Runners
  together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from math import inf

from actors.errors import OverloadedError
from actors.messages.session import SessionKey
from actors.rules.eviction import LruDict
from actors.rules.queues import MIN_RETRY_S, line_is_full

PROBE_S = 0.5
FORGET_S = 1.0
PASSED_S = 0.1

MAX_LINES = 10_000
"""Full lines that are remembered."""

Line = tuple[int | str, ...]
"""A line of a Runner: its number, then the user's and the session's id where it is one of theirs."""


class _Full:
    """A line that was full.

    Attributes:
        room: turns that may be asked for.
        asked_s: when one was asked for beyond those that have left, or the line was found full.
        busy_s: when this line was last a reason to refuse.
        passed: requests that were let through and have not asked yet, since `passed_s`.
    """

    __slots__ = ("asked_s", "busy_s", "passed", "passed_s", "refusal", "room", "until_s")

    def __init__(self, refusal: OverloadedError, now_s: float) -> None:
        self.room = self.passed = 0
        self.passed_s = now_s
        self.renew(refusal, now_s)

    def renew(self, refusal: OverloadedError, now_s: float) -> None:
        self.refusal = refusal
        self.until_s = now_s + refusal.retry_after_s
        self.asked_s = self.busy_s = now_s

    def may_be_asked(self, now_s: float) -> bool:
        return self.room > 0 or now_s - self.asked_s >= PROBE_S

    def may_pass(self, now_s: float) -> bool:
        if now_s - self.passed_s >= PASSED_S:
            self.passed, self.passed_s = 0, now_s
        return self.may_be_asked(now_s) and self.passed < max(self.room, 1)

    def take_room(self, now_s: float) -> None:
        self.passed = max(self.passed - 1, 0)
        if self.room > 0:
            self.room -= 1
        else:
            self.asked_s = now_s

    def told_again(self, now_s: float) -> OverloadedError:
        """The refusal, with what is left of its time."""
        self.busy_s = now_s
        whose, what, setting, *_ = self.refusal.args
        return OverloadedError(whose, what, setting, round(max(self.until_s - now_s, MIN_RETRY_S), 1))


class RefusedLines:
    """What a program remembers. Times are those of one clock."""

    def __init__(self) -> None:
        self._full: LruDict[Line, _Full] = LruDict(MAX_LINES)

    def __len__(self) -> int:
        """The number of lines that were full."""
        return len(self._full)

    def ask(self, lines: Sequence[Line], now_s: float) -> OverloadedError | None:
        """Why a turn of these lines need not be asked for; None when it is to be asked for, and counts as asked."""
        full = list(self._known(lines, now_s))
        for each in full:
            if not each.may_be_asked(now_s):
                return each.told_again(now_s)
        for each in full:
            each.take_room(now_s)
        return None

    def let_through(self, runners: int, now_s: float, *, again: bool = False) -> OverloadedError | None:
        """Why no turn at all need be asked for: the line of each Runner is full. None when one may be, and is about to be.

        Args:
            again: the request was let through before, and has not asked yet.
        """
        full = [each for number in range(runners) for each in self._known([(number,)], now_s)]
        if len(full) < runners:
            return None
        for each in full:
            if each.may_be_asked(now_s) if again else each.may_pass(now_s):
                each.passed += not again
                return None
        return min((each.told_again(now_s) for each in full), key=lambda refusal: refusal.retry_after_s)

    def refuse(self, lines: Sequence[Line], refusal: OverloadedError, now_s: float) -> None:
        """A turn that was asked for was refused: the line that the refusal names is full, and the others have it no more."""
        line = _named(lines, refusal)
        for each in lines:
            if each != line:
                self._make_room(each)
        if line is None:
            return
        full = self._full.get(line)
        if full is None:
            self._full[line] = _Full(refusal, now_s)
        else:
            full.renew(refusal, now_s)

    def leave(self, lines: Sequence[Line]) -> None:
        """A turn of these lines has begun, or will not."""
        for line in lines:
            self._make_room(line)

    def _make_room(self, line: Line) -> None:
        if (full := self._full.get(line)) is not None:
            full.room += 1

    def _known(self, lines: Sequence[Line], now_s: float) -> Iterator[_Full]:
        for line in lines:
            full = self._full.get(line)
            if full is None:
                continue
            if now_s - full.busy_s >= FORGET_S:
                self._full.pop(line)
            else:
                yield full


def lines_of(runner: int, key: SessionKey) -> tuple[Line, Line, Line]:
    """The lines to which a turn of a session comes: its Runner's, its user's and its own."""
    return (runner,), (runner, key.user), (runner, key.user, key.session)


def _named(lines: Sequence[Line], refusal: OverloadedError) -> Line | None:
    """The line that a refusal is about; None for one that says nothing of other turns."""
    of_runner, of_user, of_session = lines
    named = {
        "max_waiting_turns": of_runner,
        "max_waiting_user_turns": of_user,
        "max_waiting_session_turns": of_session,
    }
    return named.get(str(refusal.args[2])) if type(refusal) is OverloadedError else None


class AskedTurns:
    """What a program counts. Times are those of one clock."""

    def __init__(self) -> None:
        # By age: dictionaries keep the order.
        self._turns: dict[Hashable, tuple[int, float]] = {}
        self._of_runner: Counter[int] = Counter()
        self._probed_s: dict[int, float] = {}
        self._passed_s = -inf

    def __len__(self) -> int:
        """The number of turns that have not begun."""
        return len(self._turns)

    def add(self, turn: Hashable, runner: int, now_s: float) -> None:
        """A turn is asked for, of the Runner with this number."""
        self._turns[turn] = runner, now_s
        self._of_runner[runner] += 1

    def discard(self, turn: Hashable) -> None:
        """A turn has begun, or will not. One that was not counted is none of these."""
        if (found := self._turns.pop(turn, None)) is not None:
            self._of_runner[found[0]] -= 1

    def refusal(self, runner: int, most: int, now_s: float) -> OverloadedError | None:
        """Why a Runner with a line of `most` turns need not be asked for another one; None when it is about to be asked."""
        waiting = self._of_runner[runner]
        if waiting < most:
            return None
        if now_s - self._probed_s.get(runner, -inf) >= PROBE_S:
            self._probed_s[runner] = now_s
            return None
        return self._full(waiting, now_s)

    def refusal_of_any(
        self, unread: int, runners: int, most: int, now_s: float, *, again: bool = False
    ) -> OverloadedError | None:
        """The same of a turn of whichever session.

        Args:
            unread: so many requests that are not read stand before it.
            again: it was let through before, and has not asked yet.
        """
        waiting = len(self._turns) + unread
        if waiting < most * runners:
            return None
        if not again and now_s - self._passed_s >= PROBE_S:
            self._passed_s = now_s
        elif not again or now_s - self._passed_s >= PASSED_S:
            return self._full(waiting, now_s)
        return None

    def _full(self, waiting: int, now_s: float) -> OverloadedError:
        oldest_s = next(iter(self._turns.values()))[1] if self._turns else now_s
        return line_is_full(waiting, now_s - oldest_s)
