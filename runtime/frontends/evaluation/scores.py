"""Scores of a turn: whether its tool calls are the expected ones, and how many words its answer shares with the expected one."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from runtime.frontends.evaluation.eval_sets import ToolUse

Match = Literal["EXACT", "IN_ORDER", "ANY_ORDER"]
MATCHES: tuple[Match, ...] = ("EXACT", "IN_ORDER", "ANY_ORDER")
"""The expected calls and no others; those in this order among others; those in any order among others."""

_ONE_BY_ONE = ((0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7AF))
"""Scripts without spaces, of which each character counts as a word: Japanese, Chinese and Korean."""

_CLUSTERS = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
"""Scripts without spaces, of which each character with its marks counts as a word: Thai, Lao, Burmese and Khmer."""


def trajectory_match(expected: Sequence[ToolUse], actual: Sequence[ToolUse], match: Match, *, ignore_args: bool) -> bool:
    """True when the tool calls of a turn are as expected."""

    def same(one: ToolUse, other: ToolUse) -> bool:
        return one.name == other.name and (ignore_args or one.args == other.args)

    if match == "EXACT":
        return len(expected) == len(actual) and all(map(same, expected, actual))
    if match == "IN_ORDER":
        rest = iter(actual)
        return all(any(same(wanted, call) for call in rest) for wanted in expected)
    left = list(actual)
    for wanted in expected:
        found = next((place for place, call in enumerate(left) if same(wanted, call)), None)
        if found is None:
            return False
        del left[found]
    return True


def response_match(expected: str, actual: str) -> float:
    """ROUGE-1: the harmonic mean of the shares of words that each text has in common with the other. From 0 to 1."""
    wanted, given = Counter(_words(expected)), Counter(_words(actual))
    common = (wanted & given).total()
    return 2 * common / (wanted.total() + given.total()) if common else 0.0


def _words(text: str) -> list[str]:
    """The words of a text in small letters, without punctuation."""
    return "".join(_spaced(unicodedata.normalize("NFKC", text).lower())).split()


def _spaced(text: str) -> Iterator[str]:
    for char in text:
        is_mark = unicodedata.category(char).startswith("M")
        if _is_in(char, _ONE_BY_ONE):
            yield f" {char} "
        elif _is_in(char, _CLUSTERS):
            yield char if is_mark else f" {char}"
        else:
            yield char if is_mark or char.isalnum() else " "


def _is_in(char: str, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= ord(char) <= last for first, last in ranges)
