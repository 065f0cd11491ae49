"""The seam to the spans of a turn and of the runs in it: the Runner says what begins, ends and is lost."""

from __future__ import annotations

from typing import Protocol

from actors.messages.protocol.outcomes import AnyOutcome
from actors.runner.running.runs import Run


class TurnSpans(Protocol):
    """The spans of one turn in this Runner."""

    def begin_run(self, run: Run) -> None:
        """A run begins, or is taken up."""
        ...

    def traceparent(self, run: Run) -> str:
        """The `traceparent` for an actor that is to carry out a run."""
        ...

    def lost(self, run: Run, error: Exception) -> None:
        """The process was lost that carried a run out."""
        ...

    def end_run(self, run: Run, outcome: AnyOutcome | None) -> None:
        """A run has ended; with None it was given up, and may be taken up again."""
        ...

    def end_turn(self, agent: str, outcome: AnyOutcome, left: AnyOutcome | None = None) -> None:
        """The turn has ended, or waits for an answer.

        Args:
            agent: the agent that was selected for it.
            left: how the runs have ended of which nothing was heard; None: they were cancelled.
        """
        ...
