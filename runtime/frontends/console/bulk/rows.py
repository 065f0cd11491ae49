"""Turns and calls that wait as rows of tables."""

from __future__ import annotations

import time
from collections.abc import Sequence

from actors.layers.listing.messages import PendingCall
from actors.layers.spending.messages import UsageReport
from actors.messages.turn_info import TurnInfo
from runtime.frontends.console.output import duration

TURN_COLUMNS = ("INVOCATION", "SESSION", "USER", "AGENT", "STATE", "AGE")
USAGE_COLUMNS = ("CALLS", "TOKENS", "MONEY")
CALL_COLUMNS = ("INVOCATION", "SESSION", "USER", "AGENT", "CALL", "TOOL", "AGE")


def turn_row(turn: TurnInfo, waits: Sequence[PendingCall] = ()) -> tuple[str, ...]:
    """The cells of a turn below TURN_COLUMNS; of one that waits for a person with the agents whose calls wait."""
    agent = ", ".join(dict.fromkeys(call.agent for call in waits)) or turn.agent
    return turn.invocation_id, turn.session_id, turn.user_id, agent, turn.state, duration(_age_s(turn))


def used_row(used: UsageReport) -> tuple[str, ...]:
    """The sums of a turn, as cells below USAGE_COLUMNS."""
    total = used.total
    return str(total.llm_calls), str(total.tokens), "-" if total.money is None else f"{total.money:.4f} {used.currency}"


def calls_row(calls: Sequence[PendingCall]) -> tuple[str, ...]:
    """The cells of the calls of one turn below CALL_COLUMNS."""
    first = calls[0]
    agents, tools = (", ".join(dict.fromkeys(names)) for names in ([c.agent for c in calls], [c.name for c in calls]))
    ids, age = ", ".join(call.call_id for call in calls), duration(time.time() - first.asked_s)
    return first.invocation_id, first.session_id, first.user_id, agents, ids, tools, age


def _age_s(turn: TurnInfo) -> float:
    """The time since it began, or paused, or that it took."""
    if turn.state == "waiting":
        return 0.0
    if turn.state in ("running", "paused"):
        return time.time() - (turn.ended_s or turn.begun_s)
    return turn.ended_s - turn.begun_s
