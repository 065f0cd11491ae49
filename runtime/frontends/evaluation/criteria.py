"""What a case must reach: metrics with their thresholds, as in ADK's `test_config.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from actors.errors import RequestError
from actors.errors.hints import did_you_mean
from runtime.frontends.evaluation.eval_sets import ExpectedTurn, ToolUse, read_json
from runtime.frontends.evaluation.scores import MATCHES, Match, response_match, trajectory_match

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
