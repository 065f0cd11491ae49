"""A turn as operators see it: what runs in it, what it waits for, and what it has cost so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from actors.layers.limiter.messages import ModelWait
from actors.layers.listing.messages import LiveRun, PendingCall
from actors.layers.spending.messages import UsedBudget
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject
from actors.messages.shown import Shown
from actors.messages.turn_info import TurnInfo


class OpenToolCall(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A call of a tool that has no response yet, of a turn that runs.

    Attributes:
        seq: position of the event with the call.
        called_s: the time of that event, in seconds since the epoch.
    """

    call_id: str
    name: str
    args: JsonObject = {}
    agent: str = ""
    seq: int = 0
    called_s: float = 0.0


class AgentShare(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What an agent has done in a turn, by the log.

    Attributes:
        events: events that it has stored.
        tool_calls: tools that it has called, agents that it has as tools and transfers included.
        failed_tools: those that have ended with an error.
        usage: tokens of its models' answers, summed up, as far as their services have told them.
        first_s, last_s: times of its first and last event, in seconds since the epoch.
    """

    agent: str
    events: int = 0
    tool_calls: int = 0
    failed_tools: int = 0
    usage: Usage = Usage()
    first_s: float = 0.0
    last_s: float = 0.0


class TurnDescription(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """All that is known of a turn at one moment.

    Attributes:
        turn: where it is.
        message: the text that began it.
        agents: what each agent has done in it, in the order of their first events.
        usage: tokens of all of them.
        turns_before: of a turn that waits in line, how many of its session come before it.
        runs: runs under way, the oldest first. Those of a turn that does not run have ended.
        tool_calls: tools that run, the oldest first.
        model_waits: model calls that wait for the limits of their model.
        pending: calls that wait for a person.
        losses: how many processes were lost in the turn, by the agents that ran there; `turn.lost` has each.
        transfers, llm_calls: transfers and model calls of a turn that runs, since its Runner began it.
        traceback: of the code that has failed; "" where there is none.
        budgets: how far each limit of its budgets is used, of a turn that runs, is paused, or has failed.
        money: what it has cost so far; None where none of its models has a price.
        currency: of `money`; "" where no model has a price.
    """

    turn: TurnInfo
    message: str = ""
    agents: Sequence[AgentShare] = ()
    usage: Usage = Usage()
    turns_before: int = 0
    runs: Sequence[LiveRun] = ()
    tool_calls: Sequence[OpenToolCall] = ()
    model_waits: Sequence[ModelWait] = ()
    pending: Sequence[PendingCall] = ()
    losses: Mapping[str, int] = {}
    transfers: int = 0
    llm_calls: int = 0
    traceback: str = ""
    budgets: Sequence[UsedBudget] = ()
    money: float | None = None
    currency: str = ""
