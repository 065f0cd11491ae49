"""A queue in which owners take turns, so that what one of them has waiting costs the others little.

Rules of this file:

- Owners have levels, such as user and session. Users take turns, and so do the sessions of each user; what one session has
  waiting is taken in the order in which it came.
- An owner is served at the latest when every other owner of its level that waits was served once. An owner of the first level
  with a weight is served so many times in a row, as long as it has anything waiting.
- No step costs more when more is waiting; only people ask for an item's place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

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
