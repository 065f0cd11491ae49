"""Warnings of budgets of which most is used, to operators and plugins: once for each budget and day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.interfaces.telemetry import tell_event
from actors.layers.spending.rules.at_limit import Account, warning_of
from actors.layers.spending.rules.report import DAY_S
from actors.layers.spending.turn_spending import Spending
from actors.messages.costs import BudgetWarning, Price
from actors.messages.event import now_s
from actors.messages.session import SessionKey
from actors.session.log.open_turn import SessionTurn

MAX_KEPT = 10_000
"""So many budgets of sessions and users are remembered as told of."""


class BudgetWarnings:
    """Warns of budgets, each once: of a turn's own for the turn, of a session's and a user's and an app's for the day.

    What was told of the latter is forgotten with this actor.

    Args:
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices
        self._told: dict[tuple[object, ...], None] = {}

    def new(self, key: SessionKey, turn: SessionTurn, accounts: Sequence[Account]) -> list[BudgetWarning]:
        """The warnings that are due, none of them twice."""
        found = []
        for account in accounts:
            if self._is_told(key, turn, account) or (warning := warning_of(account, self._prices)) is None:
                continue
            self._note(key, turn, account)
            found.append(warning)
            tell_event(
                "budget",
                "the budget of %s is used to %d %%: %s=%s, and %s are used; session %r of user %r",
                *(warning.whose, 100 * warning.used / warning.limit if warning.limit else 100),
                *(warning.field, warning.limit, warning.used, key.session, key.user),
            )
        return found

    def _is_told(self, key: SessionKey, turn: SessionTurn, account: Account) -> bool:
        name = _name(key, account)
        return account.scope in Spending.of(turn).warned if name is None else name in self._told

    def _note(self, key: SessionKey, turn: SessionTurn, account: Account) -> None:
        name = _name(key, account)
        if name is None:
            Spending.of(turn).warned[account.scope] = None
            return
        while len(self._told) >= MAX_KEPT:
            del self._told[next(iter(self._told))]
        self._told[name] = None


def _name(key: SessionKey, account: Account) -> tuple[object, ...] | None:
    """Names a budget that several turns share; None for one of the turn itself."""
    match account.scope:
        case "session":
            return ("session", key, now_s() // DAY_S)
        case "user":
            return ("user", key.user, now_s() // DAY_S)
        case "app":
            return ("app", now_s() // DAY_S)
    return None
