"""New turns that a program refuses by itself, since the line that they would come to is full.

It remembers lines that have refused a turn (`RefusedLines`), and counts its own turns that have not begun (`AskedTurns`).

- A refusal stands for its line only: that of a session, of a user, or of a Runner. One for the size of a message stands for none,
  since a smaller one may find room.
- A turn of this program that leaves the line makes room, so one may be asked for in its place. As long as more is wanted the line
  stays as full as it was, and hardly any request is made to be refused.
- Others leave the line, too, of which this program knows nothing: every `PROBE_S` one may be asked for beyond that. Nothing
  depends on this program's count alone.
- A line that has let everything through for `FORGET_S` is forgotten.
- A turn waits in its Runner until it has begun. Its program learns of that later, so it counts each of its turns for at least as
  long as the Runner does. Where as many of them have not begun as may wait in the line, another one would be refused there.
- A server lets requests through before it knows whose turns they ask for: no more of them than the line of a Runner has room for,
  as long as these may still come to ask, `PASSED_S`. What is unread counts for all Runners together.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from math import inf

from actors.errors import OverloadedError
from actors.messages.limits import DEFAULT_LIMITS
from actors.messages.session import SessionKey
from actors.rules.capacity.backlog import MIN_RETRY_S, line_is_full
from actors.rules.capacity.eviction import LruDict
from runtime.driver.engine_client import EngineClient
from runtime.driver.turns.state import TurnState

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
    """Counts the turns that a program has asked for and that have not begun. Times are those of one clock."""

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


class Refusals:
    """The refusals of one deployment. Its methods may be called from any thread.

    Args:
        client: knows the Runners and how many turns may wait there, and the time by which their refusals hold.
    """

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._lines = RefusedLines()
        self._asked = AskedTurns()
        # True while a line is remembered: most programs are refused nothing, or were long ago.
        self._knows_lines = False
        self._lock = threading.Lock()

    def ask(self, turn: TurnState) -> OverloadedError | None:
        """Why a new turn is not to be asked for; None when it is, and counts until it has left. Raises RuntimeClosedError."""
        runner, now_s = self._client.engine.runner.number_of(turn.key), self._client.loop_time_s()
        with self._lock:
            refusal = self._asked.refusal(runner, self._most(), now_s)
            if self._knows_lines and refusal is None:
                refusal = self._lines.ask(lines_of(runner, turn.key), now_s)
                self._knows_lines = len(self._lines) > 0
            if refusal is None:
                self._asked.add(turn, runner, now_s)
            return refusal

    def of_any_turn(self, *, again: bool, unread: int) -> OverloadedError | None:
        """Why no new turn is to be asked for, of whichever session; None when one may be, and is. Raises RuntimeClosedError.

        Args:
            again: it was told None before, and has not been asked for yet.
            unread: requests for other turns that were told None, and will ask before it.
        """
        runners, now_s = self._client.engine.runner.count, self._client.loop_time_s()
        with self._lock:
            refusal = self._asked.refusal_of_any(unread, runners, self._most(), now_s, again=again)
            if self._knows_lines and refusal is None:
                refusal = self._lines.let_through(runners, now_s, again=again)
            return refusal

    def note(self, turn: TurnState, refusal: OverloadedError) -> None:
        """Remember that a turn was refused. Called on the loop."""
        with self._lock:
            self._asked.discard(turn)
            self._knows_lines = True
            self._lines.refuse(self._of(turn.key), refusal, asyncio.get_running_loop().time())

    def leave(self, turn: TurnState, *, makes_room: bool = True) -> None:
        """A turn has begun, or could not.

        Args:
            makes_room: it was in the line of its Runner.
        """
        with self._lock:
            self._asked.discard(turn)
            if self._knows_lines and makes_room:
                self._lines.leave(self._of(turn.key))

    def _most(self) -> int:
        """The number of turns that may wait in the line of a Runner."""
        settings = self._client.engine.settings
        return settings.max_waiting_turns if settings is not None else DEFAULT_LIMITS.max_waiting_turns

    def _of(self, key: SessionKey) -> tuple[Line, Line, Line]:
        return lines_of(self._client.engine.runner.number_of(key), key)
