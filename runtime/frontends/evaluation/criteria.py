"""What a case must reach: metrics with their thresholds, as in ADK's `test_config.json`, and how a turn is scored by them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from actors.errors import RequestError
from actors.errors.hints import did_you_mean
from runtime.frontends.evaluation.eval_sets import ExpectedTurn, ToolUse, read_json

Match = Literal["EXACT", "IN_ORDER", "ANY_ORDER"]
MATCHES: tuple[Match, ...] = ("EXACT", "IN_ORDER", "ANY_ORDER")
"""The expected calls and no others; those in this order among others; those in any order among others."""

_ONE_BY_ONE = ((0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7AF))
"""Scripts without spaces, of which each character counts as a word: Japanese, Chinese and Korean."""

_CLUSTERS = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
"""Scripts without spaces, of which each character with its marks counts as a word: Thai, Lao, Burmese and Khmer."""


CONFIG = "test_config.json"
"""The file beside an evaluation set that has its criteria."""

TRAJECTORY, RESPONSE = "tool_trajectory_avg_score", "response_match_score"

DEFAULT: Mapping[str, Any] = {TRAJECTORY: 1.0, RESPONSE: 0.8}
"""The criteria of a set that has no such file."""

Score = Callable[[ExpectedTurn, tuple[ToolUse, ...], str], float]
"""From what was expected of a turn, and its tool calls and answer."""


@dataclass(frozen=True)
class Criterion:
    """A metric, the least score that passes, and how a turn is scored; None: that needs a model that judges, or code."""

    metric: str
    threshold: float
    score: Score | None


def load_criteria(config: Path | None, beside: Path) -> list[Criterion]:
    """The criteria of an evaluation set.

    Args:
        config: the file that has them; None: `test_config.json` beside the set, or else the default.
        beside: the file of the set.

    Raises:
        RequestError: the file cannot be read, or a criterion is wrong.
    """
    file = config or beside.parent / CONFIG
    if config is None and not file.is_file():
        return [_criterion(file, name, given) for name, given in DEFAULT.items()]
    raw = read_json(file)
    criteria = raw.get("criteria") if isinstance(raw, dict) else None
    if not isinstance(criteria, dict) or not criteria:
        raise RequestError(f'{file} has no criteria: write {{"criteria": {{"{TRAJECTORY}": 1.0, "{RESPONSE}": 0.8}}}}')
    return [_criterion(file, name, given) for name, given in criteria.items()]


def _criterion(file: Path, metric: str, given: Any) -> Criterion:
    options = given if isinstance(given, dict) else {"threshold": given}
    threshold = options.get("threshold")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise RequestError(f"{file}: the threshold of {metric} must be a number, not {threshold!r}")
    score: Score | None = None
    if metric == TRAJECTORY:
        ignore_args = bool(options.get("ignore_args", options.get("ignoreArgs", False)))
        match = _match(file, options.get("match_type", options.get("matchType", "EXACT")))
        score = partial(_trajectory, match, ignore_args)
    elif metric == RESPONSE:
        score = _response
    return Criterion(metric, float(threshold), score)


def _match(file: Path, given: Any) -> Match:
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(MATCHES):
        return MATCHES[given]
    name = str(given).strip().upper().replace("-", "_").replace(" ", "_")
    for match in MATCHES:
        if match == name:
            return match
    raise RequestError(f"{file}: {given!r} is no match_type.{did_you_mean(name, MATCHES)} Valid: {', '.join(MATCHES)}")


def _trajectory(match: Match, ignore_args: bool, expected: ExpectedTurn, calls: tuple[ToolUse, ...], _: str) -> float:
    return float(trajectory_match(expected.tool_uses, calls, match, ignore_args=ignore_args))


def _response(expected: ExpectedTurn, _: tuple[ToolUse, ...], answer: str) -> float:
    return response_match(expected.answer, answer)


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
