"""What has become of the turns of a load."""

from __future__ import annotations

import msgspec

from tests.benchmarks.figures import percentile


class Tally(msgspec.Struct):
    """What has become of turns.

    Attributes:
        answered: so many.
        answered_ms, refused_ms: how long each took, from when it was due: to begin it, as to connect, is part of that.
        refused_sent_ms: the same from when its request was sent; of a Runtime, which is called, there is none.
        waits_s: after which those that were refused may come again.
        errors: what else happened.
    """

    answered: int = 0
    answered_ms: list[float] = []
    refused_ms: list[float] = []
    refused_sent_ms: list[float] = []
    waits_s: list[float] = []
    errors: dict[str, int] = {}

    def add(self, other: Tally) -> None:
        """Add what has become of others."""
        self.answered += other.answered
        self.answered_ms += other.answered_ms
        self.refused_ms += other.refused_ms
        self.refused_sent_ms += other.refused_sent_ms
        self.waits_s += other.waits_s
        for error, times in other.errors.items():
            self.errors[error] = self.errors.get(error, 0) + times

    def note_error(self, error: str) -> None:
        """A turn was neither answered nor refused."""
        self.errors[error[:200]] = self.errors.get(error[:200], 0) + 1

    def __str__(self) -> str:
        answered, refused, sent = (
            f"p50 {percentile(took_ms or [0.0], 50):.1f} ms, p99 {percentile(took_ms or [0.0], 99):.1f} ms"
            for took_ms in (self.answered_ms, self.refused_ms, self.refused_sent_ms)
        )
        return (
            f"{self.answered} answered, {answered}; {len(self.refused_ms)} refused, {refused}; from when they were sent, {sent}; "
            f"{self.errors}"
        )
