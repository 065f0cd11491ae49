"""Sums of turns as a report: by agent, model, user, day, version or turn, and with what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from heapq import heappush, heappushpop

import msgspec

from actors.messages.operating.usage import Price, UsageReport, UsageSums, UsedTurn
from actors.rules.accounting.prices import cost, currency_of, price_of
from actors.rules.accounting.turn_usage import US, Amounts, models_of_packed, sum_of_packed

DAY_S = 86_400
_EPOCH = date(1970, 1, 1)

MOST_TURNS = 100
"""Turns that a report by turn lists."""


def day_of(begun_s: float) -> str:
    """The day of a time by UTC, such as "2026-11-24"."""
    return (_EPOCH + timedelta(days=begun_s // DAY_S)).isoformat()


def groups_of(by: str) -> str:
    """The word by which a report groups turns: "user", "day", "version" or "turn"; "" where they say the rest."""
    return by if by in ("user", "day", "version", "turn") else ""


def turn_group(user: str, session: str, invocation_id: str, begun_s: float) -> str:
    """The name of a turn as a group of its own."""
    return msgspec.json.encode((user, session, invocation_id, begun_s)).decode()


class UsageCollector:
    """Adds up turns for a report.

    Args:
        by: what to list them by: "agent", "model", "user", "day", "version" or "turn"; "" for the sum of all.
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, by: str, prices: Mapping[str, Price]) -> None:
        self._by = by
        self._prices = prices
        self._by_model: dict[str, dict[str, Amounts]] = {}
        # Those that cost most, the least of them first: by money, by tokens, and by name.
        self._turns: list[tuple[float, int, str, UsageSums]] = []

    def add(self, group: str, turns: Sequence[bytes]) -> None:
        """Add what turns of one group have used, each in packed form: see `groups_of`."""
        if self._by == "agent":
            for (agent, model), amounts in sum_of_packed(turns).items():
                self._add(agent, model, amounts)
            return
        models = models_of_packed(turns)
        if self._by == "turn":
            self._add_turn(group, models)
            group = ""
        for model, amounts in models.items():
            self._add(model if self._by == "model" else group, model, amounts)

    def _add(self, name: str, model: str, amounts: Amounts) -> None:
        models = self._by_model.setdefault(name, {})
        before = models.get(model)
        models[model] = amounts if before is None else before.plus(amounts)

    def _add_turn(self, group: str, models: Mapping[str, Amounts]) -> None:
        sums = self._sums(models)
        entry = (sums.money or 0.0, sums.tokens, group, sums)
        if len(self._turns) < MOST_TURNS:
            heappush(self._turns, entry)
        else:
            heappushpop(self._turns, entry)

    def _total(self) -> Mapping[str, Amounts]:
        total: dict[str, Amounts] = {}
        for models in self._by_model.values():
            for model, amounts in models.items():
                before = total.get(model)
                total[model] = amounts if before is None else before.plus(amounts)
        return total

    def report(self) -> UsageReport:
        """The report of all that was added so far."""
        total = self._total()
        has_groups = self._by not in ("", "turn")
        groups = {name: self._sums(self._by_model[name]) for name in sorted(self._by_model)} if has_groups else {}
        costly = sorted(self._turns, key=lambda each: (-each[0], -each[1], each[2]))
        unpriced = [
            model
            for model, amounts in sorted(total.items())
            if amounts.input_tokens + amounts.output_tokens + amounts.reasoning_tokens and price_of(model, self._prices) is None
        ]
        return UsageReport(
            total=self._sums(total),
            groups=groups,
            turns=[_used_turn(name, sums) for _, _, name, sums in costly],
            currency=currency_of(self._prices),
            unpriced=unpriced,
        )

    def _sums(self, models: Mapping[str, Amounts]) -> UsageSums:
        whole = Amounts()
        money: float | None = None
        for model, amounts in models.items():
            whole = whole.plus(amounts)
            price = price_of(model, self._prices) if amounts.llm_calls else None
            if price is not None:
                money = (money or 0.0) + cost(amounts, price)
        return UsageSums(
            llm_calls=whole.llm_calls,
            tool_calls=whole.tool_calls,
            input_tokens=whole.input_tokens,
            cached_tokens=whole.cached_tokens,
            output_tokens=whole.output_tokens,
            reasoning_tokens=whole.reasoning_tokens,
            seconds=whole.us / US,
            money=money,
        )


def _used_turn(group: str, sums: UsageSums) -> UsedTurn:
    user, session, invocation_id, begun_s = msgspec.json.decode(group)
    return UsedTurn(user_id=user, session_id=session, invocation_id=invocation_id, begun_s=begun_s, sums=sums)
