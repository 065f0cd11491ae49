"""Which Runners run the turns: in the place of each, the one that announced itself last."""

from __future__ import annotations

from dataclasses import dataclass

from actors.messages import protocol as p


@dataclass(slots=True)
class _Place:
    """A Runner with its term, and how many have announced themselves in its place."""

    runner: str
    number: int = 0
    term: int = 0


class Runners:
    """Knows the Runners that live from those that were lost, of which messages may still come.

    Who comes first in a place has it without a word: should it be one that was lost, its successor announces itself. Should it
    be the successor, its messages tell its term, and one before it that lives on does not get the place.
    """

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def refusal(self, runner: str, term: int = 0) -> p.NotLeader | None:
        """The reply to a Runner in whose place another one is. 0 for `term`: its message does not tell it."""
        place = self._place(runner, term)
        if place.runner != runner:
            return p.NotLeader(number=place.number, term=place.term)
        place.term = max(term, place.term)
        return None

    def announce(self, runner: str, number: int, term: int = 0) -> p.NotLeader | None:
        """Give a Runner its place, unless another one has announced itself since it was told the number, or has a later term."""
        place = self._place(runner)
        if place.number != number or term < place.term:
            return p.NotLeader(number=place.number, term=place.term)
        place.runner, place.number, place.term = runner, number + 1, term
        return None

    def _place(self, runner: str, term: int = 0) -> _Place:
        # The name of the actor, which those that are started again have in common.
        name = runner.rpartition("/")[0] or runner
        return self._places.setdefault(name, _Place(runner, term=term))
