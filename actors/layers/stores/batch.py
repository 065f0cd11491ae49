"""Batches: what is known of a map or of an evaluation while it runs, and afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from actors.messages.shown import Shown

BatchKind = Literal["map", "evaluation"]
"""What runs the turns of a batch."""

BATCH_KINDS: tuple[BatchKind, ...] = ("map", "evaluation")

BatchState = Literal["running", "finished", "stopped"]
"""Whether its program works on it, has ended it, or has left it before its end."""


class BatchInfo(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A batch as its program told it last.

    Attributes:
        id: names it; each run of a program is one of its own.
        kind: a map, or an evaluation.
        name: of the map, or of the file with the evaluation set.
        state: "running" may be old where the program was killed: `updated_s` tells.
        begun_s, updated_s, ended_s: when it began, was told last and ended, in seconds since the epoch; `ended_s` is 0 before.
        total: how many inputs or cases there are; None where that is not known.
        done: those with a result, failed ones included.
        failed: those with an error, and cases that have not passed.
        repeated: those that an earlier run has answered.
        thresholds: of an evaluation, the least score of a case that passes, by metric.
        scores: of an evaluation, the mean scores of its cases so far, by metric.
    """

    id: str
    kind: BatchKind
    name: str
    state: BatchState = "running"
    begun_s: float
    updated_s: float
    ended_s: float = 0.0
    total: int | None = None
    done: int = 0
    failed: int = 0
    repeated: int = 0
    thresholds: dict[str, float] = {}
    scores: dict[str, float] = {}


class CaseTurn(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A turn of a case of an evaluation: what was expected of it, what came, and its scores.

    Attributes:
        invocation_id: the turn.
        message: the beginning of what the user said.
        expected, answer: the beginnings of the answer that was expected, and of the one that came.
        expected_tools, tools: the calls of tools that were expected and that were made, as in `find(order=42)`.
        scores: by metric.
    """

    invocation_id: str
    message: str = ""
    expected: str = ""
    answer: str = ""
    expected_tools: Sequence[str] = ()
    tools: Sequence[str] = ()
    scores: dict[str, float] = {}


class BatchItem(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An input of a map that has failed, or a case of an evaluation.

    Attributes:
        position: its place among those that are kept of the batch, from 0.
        name: the beginning of the input's text, or the id of the case.
        user_id, session_id, invocation_id: its conversation, and the turn where it is one; "" where there is none.
        at_s: when it ended, in seconds since the epoch.
        error: why it has no result; "" of a case with scores.
        scores: of a case, by metric: the means of its turns.
        turns: of a case, those that have ended well, in order.
        passed: all scores of the case reach their thresholds.
    """

    position: int
    name: str
    user_id: str = ""
    session_id: str = ""
    invocation_id: str = ""
    at_s: float
    error: str = ""
    scores: dict[str, float] = {}
    turns: Sequence[CaseTurn] = ()
    passed: bool = False
