"""Counts turns, model calls, tools and schedules by agent and outcome, and how long they took.

Rules of this file:

- What is counted is in the log, or on its way there: so it is counted once, whichever agents' processes are lost, and stays when
  an agent leaves its process. It begins anew with the Session actor.
- Versions of the tree stay apart as agents do: an update is judged by how its turns end, and how long they take. Where there are
  too many, the one that was seen first becomes part of OTHERS.
- A tree may have ten thousand agents, and code may raise any number of classes. Beyond MAX_SERIES of a kind the agent of a
  new one is OTHERS; beyond twice as many everything is that can be anything, and only outcomes stay apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import add

from actors.messages.protocol.outcomes import AnyOutcome, Cancelled, Failed, Finished, Transfer
from actors.messages.tally import BOUNDS_S, LABELS, MODEL_CALL, SCHEDULE, TOOL_CALL, TURN, VERSION, Tally

MAX_SERIES = 200
"""Different labels of a kind that stay apart."""

OTHERS = "(others)"

FAILED = "failed"

_MADE, _MISSED = "made", "missed"


class Tallies:
    """The counts of one Session actor."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[tuple[str, ...], _Series]] = {kind: {} for kind in LABELS}

    def note_turn(self, agent: str, outcome: AnyOutcome, took_s: float, version: str = "") -> None:
        """A turn has ended, or was paused.

        Args:
            agent: the agent that was selected for it. It counts where the outcome names none: the agent that the turn came to, or
                that failed.
            took_s: how long it ran, in seconds, since it began or went on after a pause.
            version: of the tree, by which it ran; "" where that is not known.
        """
        agent = outcome.agent or agent
        if isinstance(outcome, Finished | Transfer):
            state, error = "finished", ""
        elif isinstance(outcome, Failed):
            state, error = FAILED, outcome.error_code or "_OTHER"
        elif isinstance(outcome, Cancelled):
            state, error = "cancelled", "timeout" if outcome.timeout_s is not None else ""
        else:
            state, error = "paused", ""
        self._add(TURN, (agent, state, error), took_s)
        if version:
            self._add(VERSION, (version, state), took_s)

    def note_model_call(self, agent: str, model: str, error: str = "", took_s: float | None = None) -> None:
        """A model has answered, or its call has failed with an error of this class, or the model has told this code of one."""
        self._add(MODEL_CALL, (agent.lstrip("@"), model, error), took_s)

    def note_tool_call(self, agent: str, tool: str, outcome: str) -> None:
        """A call of a tool has ended: `ok`, `failed`, or `cancelled` with its turn."""
        self._add(TOOL_CALL, (agent.lstrip("@"), tool, outcome), None)

    def note_schedule(self, error: str, late_s: float) -> None:
        """A due time has been dealt with: it has made a turn, was passed over, or was refused.

        Args:
            error: why it has made no turn; "": it has made one.
            late_s: how long after the due time, in seconds.
        """
        self._add(SCHEDULE, (_MISSED if error else _MADE,), None if error else late_s)

    def all(self) -> Sequence[Tally]:
        """Every count."""
        return [
            Tally(kind, labels, each.count, each.total_s, tuple(each.buckets))
            for kind, series in self._kinds.items()
            for labels, each in series.items()
        ]

    def _add(self, kind: str, labels: tuple[str, ...], took_s: float | None) -> None:
        series = self._kinds[kind]
        found = series.get(labels)
        if found is None:
            while kind == VERSION and len(series) >= MAX_SERIES:
                _merge_first(series)
            labels = _narrowed(labels, LABELS[kind], len(series))
            found = series.setdefault(labels, _Series())
        found.add(took_s)


class _Series:
    __slots__ = ("buckets", "count", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.buckets: list[int] = []

    def add(self, took_s: float | None) -> None:
        self.count += 1
        if took_s is not None:
            if not self.buckets:
                self.buckets = [0] * (len(BOUNDS_S) + 1)
            self.buckets[bisect_left(BOUNDS_S, took_s)] += 1
            # A clock that was set back has no part in the sum.
            self.total_s += took_s if took_s > 0 else 0.0

    def add_all(self, other: _Series) -> None:
        self.count += other.count
        self.total_s += other.total_s
        if other.buckets:
            self.buckets = list(map(add, self.buckets, other.buckets)) if self.buckets else list(other.buckets)


def _merge_first(series: dict[tuple[str, ...], _Series]) -> None:
    """Make what is counted of the version that was seen first part of OTHERS."""
    first = next(version for version, *_ in series if version != OTHERS)
    for labels in [each for each in series if each[0] == first]:
        series.setdefault((OTHERS, *labels[1:]), _Series()).add_all(series.pop(labels))


def _narrowed(labels: tuple[str, ...], names: tuple[str, ...], known: int) -> tuple[str, ...]:
    """The labels of a new series, where there are so many."""
    if known < MAX_SERIES:
        return labels
    kept = ("outcome",) if known >= 2 * MAX_SERIES else names[1:]
    return tuple(value if name in kept or not value else OTHERS for name, value in zip(names, labels, strict=True))
