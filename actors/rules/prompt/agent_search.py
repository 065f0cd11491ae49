"""Finds the agents, or the tools, that fit some words best, for `find_agents` and `find_tools` (semantics.md sections 3 and 5).

Words are compared with names and descriptions. A whole word scores more than a part of one, and a part more than a common
beginning, by which "refunds" finds "refund". A name scores more than a description, and a word that few agents have more than
one that many have. Agents with the same score keep their order, so the same question always gets the same answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import chain

MAX_FOUND = 10
"""Agents that a search returns."""

MAX_WORDS = 32
"""Words of a question that are looked for."""

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_WHOLE, _PART, _BEGINNING = 1.0, 0.5, 0.25
_IN_NAME, _IN_DESCRIPTION = 2.0, 1.0


class AgentSearch:
    """Finds agents by words.

    Args:
        names: the agents' names.
        descriptions: their descriptions, in the same order.
    """

    def __init__(self, names: Sequence[str], descriptions: Sequence[str]) -> None:
        self._names = names
        # Between spaces, so that a whole word differs from a part of one.
        self._texts = ([_spaced(name) for name in names], [_spaced(each) for each in descriptions])

    def find(self, question: str, limit: int = MAX_FOUND) -> list[int]:
        """Indexes of the agents that fit best, the best first. One whose name is the question comes before all others."""
        found = [hits for word in list(dict.fromkeys(words(question)))[:MAX_WORDS] if (hits := self._hits(word))]
        # Compared with the agents that fit any word: agents that fit none change nothing for the others.
        fitting = len(set().union(*found))
        scores: dict[int, float] = {}
        for hits in found:
            weight = math.log(1 + fitting / len(hits))
            for index, hit in hits.items():
                scores[index] = scores.get(index, 0.0) + weight * hit
        wanted = question.strip()
        folded = wanted.casefold()
        named = {index: 1 + (name == wanted) for index, name in enumerate(self._names) if name.casefold() == folded}
        ranked = sorted({*scores, *named}, key=lambda index: (-named.get(index, 0), -scores.get(index, 0.0), index))
        return ranked[:limit]

    def _hits(self, word: str) -> dict[int, float]:
        """The score of a word for each agent that it fits, by index."""
        whole = f" {word} "
        # One or two Latin letters are a part of almost every text, and a number is no part of another number.
        part = whole if word.isdigit() or (len(word) < 3 and word.isascii()) else word
        beginning = f" {word[: math.ceil(0.7 * len(word))]}" if len(word) > 3 and not word.isdigit() else part
        hits: dict[int, float] = {}
        for texts, field in zip(self._texts, (_IN_NAME, _IN_DESCRIPTION), strict=True):
            for index, text in enumerate(texts):
                if part in text:
                    hits[index] = hits.get(index, 0.0) + field * (_WHOLE if whole in text else _PART)
                elif beginning in text:
                    hits[index] = hits.get(index, 0.0) + field * _BEGINNING
        return hits


def words(text: str) -> list[str]:
    """The words of a text or a name, case folded: `RefundClerk_2` has three."""
    return [word.casefold() for word in _WORD.findall(_HUMP.sub(" ", text))]


def _spaced(text: str) -> str:
    return " ".join(chain([""], words(text), [""]))
