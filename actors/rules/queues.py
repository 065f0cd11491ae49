"""What waits, within bounds: how much may wait, in which order it is taken, and how many turns are opened at a time.

Rules of `Backlog`, the turns that were asked for and have not begun:

- There is a line of each session, of each user and of the deployment, and each is bounded by number; those of users and of the
  deployment by the bytes of their messages, too. A line in which nothing waits takes any message.
- A turn is in its lines once, however often it is asked for meanwhile.
- Who is refused may come again after as long as the first in that line has waited: so long, about, takes what is before him.

Rules of `FairQueue`, in which owners take turns, so that what one of them has waiting costs the others little:

- Owners have levels, such as user and session. Users take turns, and so do the sessions of each user; what one session has
  waiting is taken in the order in which it came.
- An owner is served at the latest when every other owner of its level that waits was served once. An owner of the first level
  with a weight is served so many times in a row, as long as it has anything waiting.
- No step costs more when more is waiting; only people ask for an item's place.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

import msgspec

from actors.errors import OverloadedError
from actors.messages.config import Limits
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


T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """What waits, each item once.

    Args:
        weight_of: how many items of an owner of the first level are taken in a row; None: one.
    """

    def __init__(self, weight_of: Callable[[Hashable], int] | None = None) -> None:
        self._weight_of = weight_of
        # How many were taken in a row of the owner of the first level whose turn it is.
        self._in_a_row = 0
        self._owners: dict[T, tuple[Hashable, ...]] = {}
        # By the owners of the first level those of the next one, and at the end the items; each in the order of their turns.
        self._turns: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, item: T) -> bool:
        return item in self._owners

    def has_any(self) -> bool:
        """True while anything waits."""
        return bool(self._owners)

    def count_owners(self) -> int:
        """The number of owners of the first level that have anything waiting."""
        return len(self._turns)

    def __iter__(self) -> Iterator[T]:
        """All items, in the order in which they came."""
        return iter(self._owners)

    def add(self, item: T, *owners: Hashable) -> None:
        """Have an item wait. One that waits already keeps its place.

        Args:
            owners: from the first level on; all items have as many.
        """
        if item in self._owners:
            return
        self._owners[item] = owners
        level = self._turns
        for owner in owners:
            below = level.get(owner)
            if below is None:
                below = level[owner] = OrderedDict()
            level = below
        level[item] = None

    def take(self) -> T:
        """Take out the item whose turn it is. Raises IndexError when none waits."""
        if not self._owners:
            raise IndexError("nothing waits")
        above: list[tuple[OrderedDict[Hashable, Any], Hashable]] = []
        level = self._turns
        first, below = next(iter(level.items()))
        while below is not None:
            above.append((level, first))
            level = below
            first, below = next(iter(level.items()))
        item: T = first  # type: ignore[assignment]
        del level[item], self._owners[item]
        self._in_a_row += 1
        for level, owner in reversed(above):
            if not level[owner]:
                del level[owner]
                if level is self._turns:
                    self._end_row()
            elif level is not self._turns or self._has_had_its_turn(owner):
                level.move_to_end(owner)
        return item

    def _has_had_its_turn(self, owner: Hashable) -> bool:
        if self._weight_of is not None and self._in_a_row < self._weight_of(owner):
            return False
        self._in_a_row = 0
        return True

    def before(self, item: T) -> int:
        """Count the items that are taken before one that waits, if nothing is added. The cost grows with what waits.

        Raises:
            KeyError: it does not wait.
        """
        if item not in self._owners:
            raise KeyError(item)
        other: FairQueue[T] = FairQueue(self._weight_of)
        other._owners, other._turns, other._in_a_row = dict(self._owners), _copied(self._turns), self._in_a_row
        count = 0
        while other.take() != item:
            count += 1
        return count

    def remove(self, item: T) -> bool:
        """Take an item out before its turn; False when it does not wait."""
        owners = self._owners.pop(item, None)
        if owners is None:
            return False
        first = next(iter(self._turns))
        levels = [self._turns]
        for owner in owners:
            levels.append(levels[-1][owner])
        del levels[-1][item]
        for level, owner in zip(reversed(levels[:-1]), reversed(owners), strict=True):
            if level[owner]:
                break
            del level[owner]
        if first not in self._turns:
            self._end_row()
        return True

    def _end_row(self) -> None:
        """Nothing more of the owner waits whose turn it was: that of the next one begins."""
        self._in_a_row = 0


def _copied(level: OrderedDict[Hashable, Any]) -> OrderedDict[Hashable, Any]:
    return OrderedDict((owner, _copied(below) if below is not None else None) for owner, below in level.items())


def weights(of_users: Mapping[str, int]) -> Callable[[Hashable], int] | None:
    """The weight of each user: that under its id, or else under the first pattern that its id matches, or else 1.

    Returns:
        None where all have the same.
    """
    if not of_users:
        return None

    def weight_of(user: Hashable) -> int:
        name = str(user)
        found = of_users.get(name)
        if found is None:
            found = next((weight for pattern, weight in of_users.items() if fnmatchcase(name, pattern)), 1)
        return found

    return weight_of


OF_SESSION_ACTOR = 64
"""Turns that may be inside for each Session actor: enough for its store to commit many together."""


def least_opened(session_actors: int, runners: int) -> int:
    """The number of turns that may be inside each Runner, however few users wait.

    Each Session actor stores together what has come to it meanwhile. So there are as many inside for each: of the same few, two
    Session actors would make twice the commits, each for half of the turns.

    Args:
        session_actors, runners: of the deployment. Runners share the sessions of all Session actors.
    """
    return OF_SESSION_ACTOR * math.ceil(session_actors / runners)


def opened_at_once(users: int, least: int, most: int) -> int:
    """The number of turns that a Runner opens at the same time: a few, and more of them while many users wait.

    What is inside is worked on by all processes in turn: the Runner, the Session actor, the agents. With few inside they wait for
    each other, and cores lie idle; with many inside the next one stands behind all of them. So the turns of one user are few at
    a time, however many it has asked for. Where more users wait than are inside, who comes next waits for its turn among them
    anyway.

    Args:
        users: that wait.
        least: turns that may be inside however few they are.
        most: turns that may be inside however many they are, if that is more than `least`.
    """
    return max(least, min(users, most))
