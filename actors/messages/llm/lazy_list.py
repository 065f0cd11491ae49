"""A list that converts its elements when they are looked at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import is_
from typing import Any


class _ReadAsWhole(list[Any]):
    """The methods of a list that look at all elements."""

    @abstractmethod
    def all(self) -> list[Any]:
        """Convert all elements, and return them."""

    def __eq__(self, other: object) -> bool:
        return self.all() == other

    def __ne__(self, other: object) -> bool:
        return self.all() != other

    __hash__ = None

    def __contains__(self, wanted: object) -> bool:
        return wanted in self.all()

    def __add__(self, other: Any) -> list[Any]:
        return self.all() + list(other) if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> list[Any]:
        return list(other) + self.all() if isinstance(other, list) else NotImplemented

    def __mul__(self, times: Any) -> list[Any]:
        return self.all() * int(times)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return repr(self.all())

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (self.all(),)

    def __copy__(self) -> list[Any]:
        return self.all()

    def copy(self) -> list[Any]:
        """A plain list of all elements."""
        return self.all()

    def index(self, *wanted: Any) -> int:
        """The place of an element."""
        return self.all().index(*wanted)

    def count(self, wanted: Any) -> int:
        """The number of times that an element is there."""
        return self.all().count(wanted)


class LazyList(_ReadAsWhole):
    """A list whose elements are converted when they are looked at: most callbacks look at few of a long conversation.

    It does what a list of the converted elements does. Only code in C that takes it for a plain list sees the others: pydantic is
    one, so a model that holds such a list needs a serializer for it.

    Args:
        given: the elements, not converted. They are never changed in place.
        kind: their class. Elements of it, and of no class derived from it, are converted.
        convert: makes an element what the list is said to hold.
    """

    def __init__(self, given: Iterable[Any], kind: type, convert: Callable[[Any], Any]) -> None:
        super().__init__(given)
        self._given = list(self.raw())
        self._kind = kind
        self._convert = convert

    def raw(self) -> Iterator[Any]:
        """The elements as they are: converted where they were looked at."""
        return super().__iter__()

    def is_as_given(self) -> bool:
        """True when no element was looked at, added, removed or replaced."""
        # In C: a long conversation is asked this in each model call.
        return len(self) == len(self._given) and all(map(is_, self.raw(), self._given))

    def restored(self, restore: Callable[[Any], Any]) -> list[Any]:
        """A plain list of elements that are not converted.

        Args:
            restore: is called with each element that was not given, or was looked at; it undoes the conversion.
        """
        # Most callbacks look at the end, so nearly all is taken over in C.
        same = [*map(is_, self.raw(), self._given), False].index(False)
        given = set(map(id, self._given[same:]))
        return self._given[:same] + [each if id(each) in given else restore(each) for each in islice(self.raw(), same, None)]

    def all(self) -> list[Any]:
        """Convert all elements, and return them."""
        return [self._at(index) for index in range(len(self))]

    def _at(self, index: Any) -> Any:
        value = super().__getitem__(index)
        if type(value) is self._kind:
            value = self._convert(value)
            super().__setitem__(index, value)
        return value

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._at(place) for place in range(*index.indices(len(self)))]
        return self._at(index)

    def __iter__(self) -> Iterator[Any]:
        place = 0
        while place < len(self):
            yield self._at(place)
            place += 1

    def __reversed__(self) -> Iterator[Any]:
        for place in range(len(self) - 1, -1, -1):
            if place < len(self):
                yield self._at(place)

    def __imul__(self, times: Any) -> Any:
        self[:] = self * times
        return self

    def pop(self, index: Any = -1) -> Any:
        """Remove and return an element."""
        if self:
            self._at(index)
        return super().pop(index)

    def remove(self, wanted: Any) -> None:
        """Remove the first such element."""
        del self[self.index(wanted)]

    def sort(self, **how: Any) -> None:
        """Sort in place."""
        self[:] = sorted(self.all(), **how)
