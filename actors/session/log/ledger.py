"""The ledger of an open turn: what its events have used, its model calls, and the tools that have failed.

Rules of this file:

- Each event is counted once, when it is folded in. Every figure about the turn is a view of these sums.
- A model call is an event of a model's response, whether it was a step of its agent or not, such as a summary. A response that a
  callback has given in place of the model is a step of the agent, and counts for the limit of calls, too.
"""

from __future__ import annotations

import msgspec

from actors.messages.event import USER
from actors.rules.accounting.turn_usage import Amounts, Spender, Spent, add_used, packed, sum_of_packed
from actors.session.log.event_scan import EventScan


class StoredLedger(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a ledger that is stored with the turn's record; the rest is folded from its events again.

    Attributes:
        spent: what the turn has used.
        extra: what was used apart from its events, packed; b"": nothing.
        failed_tools: how many calls of tools have failed.
    """

    extra: bytes = b""
    failed_tools: int = 0


EMPTY = StoredLedger()


class TurnLedger:
    """Counts what the events of a turn have used.

    Args:
        stored: the part in the turn's record.
        usage: what the turn has used, as its record says, packed; b"": only its events say that.

    Attributes:
        spent: what the turn has used.
        extra: what was used apart from its events: by events that were taken back, since they were paid for. Of the copy in a
            fork it is less than nothing: it has paid for none of what it copied.
        steps: by agent, how many model responses the log has that were a step of the agent.
        failed_tools: how many calls of tools have failed.
    """

    __slots__ = ("_before_message", "_calls", "extra", "failed_tools", "spent", "steps")

    def __init__(self, stored: StoredLedger = EMPTY, usage: bytes = b"") -> None:
        self.extra: Spent = sum_of_packed([stored.extra]) if stored.extra else {}
        self.spent: dict[Spender, Amounts] = {}
        self.forget_events()
        self.failed_tools = stored.failed_tools
        if usage:
            self.spent = dict(sum_of_packed([usage]))

    def forget_events(self) -> None:
        """Begin anew: the events of the turn will be folded in again, from the first."""
        self.spent = dict(self.extra)
        self.steps: dict[str, int] = {}
        self.failed_tools = 0
        self._calls: dict[str, int] = {}
        self._before_message: dict[str, int] = {}

    def fold(self, event: EventScan) -> None:
        """Count an event of the turn, which must not be counted twice."""
        author = event.author
        if author == USER:
            if event.branch is None:
                self._before_message = dict(self._calls)
            return
        add_used(self.spent, author, event.model_version, event.amounts())
        if event.responses:
            self.failed_tools += sum(outcome == "failed" for _, outcome in event.tool_results())
        is_step = event.is_said()
        if is_step:
            self.steps[author] = self.steps.get(author, 0) + 1
        if is_step or event.model_version is not None:
            self._calls[author] = self._calls.get(author, 0) + 1

    @property
    def tokens(self) -> int:
        """The tokens of all of its model calls."""
        return sum(used.input_tokens + used.output_tokens + used.reasoning_tokens for used in self.spent.values())

    def calls_since_message(self) -> dict[str, int]:
        """By agent, the model calls that the log has since the user's last message."""
        before = self._before_message
        return {agent: calls - before.get(agent, 0) for agent, calls in self._calls.items() if calls > before.get(agent, 0)}

    def stored(self) -> StoredLedger:
        """The part that is stored with the turn's record."""
        return StoredLedger(packed(self.extra) if self.extra else b"", self.failed_tools)
