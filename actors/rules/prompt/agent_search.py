"""Which of many agents fit some words best: what `find_agents` answers (seed 002; semantics.md section 3).

Words are compared with names and descriptions. A whole word counts more than a part of one, a part more than a common beginning
(so that "refunds" finds "refund"), a name more than a description, and a word that few agents have more than one that many
have. Equal agents stay in their order, so that the same question always gets the same answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import chain

FOUND = 10
"""Agents that a search tells, at most."""

MOST_WORDS = 32
"""Words of a question that are looked for."""

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_WHOLE, _PART, _BEGINNING = 1.0, 0.5, 0.25
_IN_NAME, _IN_DESCRIPTION = 2.0, 1.0


class AgentSearch:
    """Finds agents by words.

    Args:
        names: of the agents.
        descriptions: theirs, in the same order.
    """

    def __init__(self, names: Sequence[str], descriptions: Sequence[str]) -> None:
        self._names = names
        # Between spaces, so that a whole word is told from a part of one.
        self._texts = ([_spaced(name) for name in names], [_spaced(each) for each in descriptions])

    def find(self, question: str, most: int = FOUND) -> list[int]:
        """The places of the agents that fit best, the best first; the one whose name was given comes before all others."""
        scores: dict[int, float] = {}
        for word in list(dict.fromkeys(words(question)))[:MOST_WORDS]:
            hits = self._hits(word)
            weight = math.log(1 + len(self._names) / len(hits)) if hits else 0.0
            for place, hit in hits.items():
                scores[place] = scores.get(place, 0.0) + weight * hit
        wanted = question.strip()
        folded = wanted.casefold()
        named = {place: 1 + (name == wanted) for place, name in enumerate(self._names) if name.casefold() == folded}
        ranked = sorted({*scores, *named}, key=lambda place: (-named.get(place, 0), -scores.get(place, 0.0), place))
        return ranked[:most]

    def _hits(self, word: str) -> dict[int, float]:
        """How well a word fits each agent that it fits at all."""
        whole = f" {word} "
        # A letter or two are a part of almost everything, where letters are not words; and a number means no other.
        part = whole if word.isdigit() or (len(word) < 3 and word.isascii()) else word
        beginning = f" {word[: math.ceil(0.7 * len(word))]}" if len(word) > 3 and not word.isdigit() else part
        hits: dict[int, float] = {}
        for texts, field in zip(self._texts, (_IN_NAME, _IN_DESCRIPTION), strict=True):
            for place, text in enumerate(texts):
                if part in text:
                    hits[place] = hits.get(place, 0.0) + field * (_WHOLE if whole in text else _PART)
                elif beginning in text:
                    hits[place] = hits.get(place, 0.0) + field * _BEGINNING
        return hits


def words(text: str) -> list[str]:
    """The words of a text or a name, without regard to case: `RefundClerk_2` has three."""
    return [word.casefold() for word in _WORD.findall(_HUMP.sub(" ", text))]


def _spaced(text: str) -> str:
    return " ".join(chain([""], words(text), [""]))
