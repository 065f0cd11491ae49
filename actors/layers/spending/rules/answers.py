"""What the user has answered to the questions whether a turn gets more of a budget."""

from __future__ import annotations

from actors.messages.config import Budget
from actors.messages.json_types import JsonObject
from actors.rules.checks.budget_question import more_of
from actors.rules.checks.confirmation import CONFIRMED


class BudgetAnswers:
    """What the user has answered in a turn who was asked for more of one budget.

    Answers in one message count once: agents that ran side by side have asked for the same.

    Attributes:
        more: what was given, in order; None: as much again.
        declined_seq: the position of the newest no; 0 without one.
    """

    def __init__(self) -> None:
        self.more: list[Budget | None] = []
        self.declined_seq = 0
        self._seq = 0

    def note(self, seq: int, answer: JsonObject) -> None:
        """Take in an answer that stands in the message at `seq`."""
        if answer.get(CONFIRMED) is not True:
            self.declined_seq = seq
            return
        if seq == self._seq:
            return
        self._seq = seq
        try:
            self.more.append(more_of(answer))
        except (TypeError, ValueError):
            # It came past the check of messages.
            self.declined_seq = seq
