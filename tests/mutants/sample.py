"""What the tests of mutants change."""

from __future__ import annotations

from functools import cache

LIMIT = 3


def doubled(number: int) -> int:
    return number + number


class Counter:
    def __init__(self) -> None:
        self._count = LIMIT

    @property
    def count(self) -> int:
        return self._count

    @count.setter
    def count(self, count: int) -> None:
        self._count = count

    @classmethod
    def named(cls, name: str) -> str:
        return f"{cls.__name__} {name}"


@cache
def tripled(number: int) -> int:
    return sum(number * 3 for _ in range(1))
