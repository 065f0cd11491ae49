"""When a conversation is due to be summarised: after so many turns, or when prompts have become so long.

Rules of this file:

- There are two conditions, either of which may be left out. By turns: so many have ended since the last summary. By tokens: the
  newest prompt that a model was sent had so many or more, and there are more events than are to be kept.
- Turns that have ended come first, by tokens, else by their number, as if it were done when the last of them ended. Then comes
  the turn that runs, by the tokens of what the agent itself was sent last.
- Tokens that were counted before the last summary say nothing of the prompts after it. Where none are known, four characters of
  what the agent is shown count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple, Self

from actors.messages.event import Event
from actors.rules.prompt.compiler import is_of_conversation


class Trigger(StrEnum):
    """What is summarised, and why."""

    ENDED_BY_TOKENS = "ended turns, by tokens"
    ENDED_BY_NUMBER = "ended turns, by their number"
    RUNNING_BY_TOKENS = "all turns, by tokens"


class CompactionRule(NamedTuple):
    """When a conversation is summarised, and what is left out: see EventsCompactionConfig."""

    compaction_interval: int | None = None
    overlap_size: int = 0
    token_threshold: int | None = None
    event_retention_size: int = 0


class _Fact(NamedTuple):
    """What matters of one event: `tokens` is the size of the prompt that it answers, None where that is not known."""

    seq: int
    invocation_id: str
    author: str
    tokens: int | None


class CompactionLedger:
    """What a log says of turns and prompts since the last summary, taken in event by event."""

    def __init__(self) -> None:
        self._facts: list[_Fact] = []
        # By turn, in order: the place of its newest event.
        self._turns: dict[str, int] = {}
        # Tokens of events before this place say nothing.
        self._told_after_seq = 0

    def copy(self) -> Self:
        """Another one that goes on from here."""
        made = type(self)()
        made._facts, made._turns, made._told_after_seq = self._facts.copy(), self._turns.copy(), self._told_after_seq
        return made

    def add(self, event: Event) -> None:
        """Take in the next event of the log."""
        if not is_of_conversation(event):
            return
        compaction = event.actions.compaction
        if compaction is not None:
            end = compaction.end_seq
            self._facts = [fact for fact in self._facts if fact.seq > end]
            self._turns = {turn: seq for turn, seq in self._turns.items() if seq > end}
            self._told_after_seq = event.seq
            return
        tokens = event.usage.prompt_token_count if event.usage is not None else None
        self._facts.append(_Fact(event.seq, event.invocation_id, event.author, tokens))
        self._turns[event.invocation_id] = event.seq

    def triggers(self, rule: CompactionRule, turn: str, agent: str, estimate: Callable[[], int]) -> Iterator[Trigger]:
        """Why the conversation may be due, in the order in which that is looked at.

        Args:
            agent: whose model is about to be called.
            estimate: gives about how many tokens the agent would be shown; called only where the log does not say it.
        """
        if rule.token_threshold is not None:
            kept = sum(fact.invocation_id != turn for fact in self._facts)
            if kept > rule.event_retention_size:
                newest = self._newest(lambda fact: fact.invocation_id != turn)
                if (estimate() if newest is None else newest) >= rule.token_threshold:
                    yield Trigger.ENDED_BY_TOKENS
        if rule.compaction_interval is not None and len(self._turns.keys() - {turn}) >= rule.compaction_interval:
            yield Trigger.ENDED_BY_NUMBER
        if rule.token_threshold is not None and len(self._facts) > rule.event_retention_size:
            newest = self._newest(lambda fact: fact.author == agent)
            if (estimate() if newest is None else newest) >= rule.token_threshold:
                yield Trigger.RUNNING_BY_TOKENS

    def _newest(self, counts: Callable[[_Fact], bool]) -> int | None:
        for fact in reversed(self._facts):
            if fact.seq < self._told_after_seq:
                return None
            if fact.tokens is not None and counts(fact):
                return fact.tokens
        return None
