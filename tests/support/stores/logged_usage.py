"""What a log says that was used, for tests of what the store says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors import Event, Price
from actors.layers.spending.rules.report import UsageCollector
from actors.rules.accounting import Amounts, Spender, Spent, add_used, amounts_of, packed
from runtime import Runtime

NO_PRICES: Mapping[str, Price] = {}


def used(event: Event) -> Amounts:
    """What an event says of usage."""
    calls = {call.id for call in event.function_calls() if call.id and call.name != "raygrove_request_budget"}
    return amounts_of(event.model_version, event.usage, len(calls), event.duration_s)


def fold(events: Iterable[Event]) -> Spent:
    """What all these events have used."""
    spent: dict[Spender, Amounts] = {}
    for event in events:
        add_used(spent, event.author, event.model_version, used(event))
    return spent


def check_usage(rt: Runtime, log: Iterable[Event], prices: Mapping[str, Price] = NO_PRICES) -> None:
    """Check that the store's sums of a session of ada's, and of each of its turns, are those of its log."""
    whole = list(log)
    turns: dict[str | None, list[Event]] = {None: whole}
    for event in whole:
        turns.setdefault(event.invocation_id, []).append(event)
    for invocation_id, events in turns.items():
        collector = UsageCollector("agent", prices)
        collector.add("", [packed(fold(events))])
        assert rt.usage("ada", "s1", invocation_id, by="agent") == collector.report(), invocation_id
