"""The budgets of one turn: what is reserved, and what its agents and its user were told and asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from actors.layers.spending.rules.budgets import BudgetAnswers, LikelyCall
from actors.messages.codec import decode
from actors.messages.event import USER
from actors.rules.accounting import Spent
from actors.rules.checks.questions import scope_of
from actors.session.log.event_scan import EventScan
from actors.session.log.open_turn import SessionTurn, TurnExtension
from actors.session.log.writer import Events


class _Stored(msgspec.Struct, omit_defaults=True):
    last_calls: dict[str, int] = {}
    warned: list[str] = []
    unreserved: list[str] = []


class Spending(TurnExtension):
    """Notes what a turn's budgets are about to be used for. What the turn has used its ledger says.

    Attributes:
        reserved: by the numbers of runs, their model calls that are under way, and since when; only where there is a budget.
        unreserved: agents whose newest model call was reserved by a Session actor that was lost before the call ended.
        last_calls: by scope of budget and agent, how many model responses of the agent the log had when it was told to end.
        warned: scopes of the turn's budgets of which most is used, and which plugins have heard of.
        answers: by scope of budget, what the user has answered who was asked for more.
        used_before: what other turns of the session had used when it was opened; None while that is not known.
    """

    name: ClassVar[str] = "spending"
    reserved: dict[int, tuple[LikelyCall, float]] = msgspec.field(default_factory=dict)
    unreserved: dict[str, None] = msgspec.field(default_factory=dict)
    last_calls: dict[str, int] = msgspec.field(default_factory=dict)
    warned: dict[str, None] = msgspec.field(default_factory=dict)
    answers: dict[str, BudgetAnswers] = msgspec.field(default_factory=dict)
    used_before: Spent | None = None

    def dump(self, *, is_over: bool) -> msgspec.Struct:
        """Leave out the reservations, which are lost with the actor, and the answers, which are in the log."""
        return _Stored() if is_over else _Stored(self.last_calls, list(self.warned), list(self.unreserved))

    def load(self, raw: bytes) -> None:
        """Take all but the reservations, which stay as they are in memory."""
        stored = decode(raw, _Stored) if raw else _Stored()
        self.last_calls = stored.last_calls
        self.warned, self.unreserved = dict.fromkeys(stored.warned), dict.fromkeys(stored.unreserved)

    def fold(self, event: EventScan, seq: int) -> None:
        """Take in what the user has answered who was asked for more of a budget."""
        if event.author == USER:
            for call_id in event.answered():
                if scope := scope_of(call_id):
                    self.answers.setdefault(scope, BudgetAnswers()).note(seq, event.answer(call_id))

    def forget_events(self) -> None:
        """See TurnExtension."""
        self.answers = {}

    def begin_elsewhere(self, turn: SessionTurn, runner: str) -> None:
        """See TurnExtension."""
        self.reserved.clear()

    def fence(self, runs: Iterable[int]) -> None:
        """See TurnExtension."""
        for run in runs:
            self.reserved.pop(run, None)

    def end_call(self, turn: SessionTurn, run: int, events: Events) -> bool:
        """Forget what is reserved for a run that appends events: it does one thing at a time, so its model call is over.

        Returns:
            True if the call was reserved by a Session actor that was lost meanwhile: this one did not count it as under way. The
            record of the turn, which says so, has to be stored.
        """
        if not (self.reserved or turn.config.budgets):
            return False
        callers = [event.author for _, event in events if event.model_version is not None and event.author != USER]
        is_known = self.reserved.pop(run, None) is not None or not turn.is_recalled
        if not (callers and turn.config.budgets):
            return False
        if is_known:
            self.unreserved.pop(callers[-1], None)
        else:
            self.unreserved[callers[-1]] = None
        return not is_known

    def take_back(self) -> None:
        """Agents that were told to end after the step may go on."""
        self.last_calls.clear()
        self.unreserved.clear()
