"""A turn as operators see it: what the log says, what its Runner is doing, and what the limiter has in line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actors.errors import NotEncodableError, StoreError
from actors.layers.limiter.messages import GetWaitingCalls, ModelWait
from actors.layers.listing.client import get_turn, list_turns
from actors.layers.listing.messages import GetRunningTurn, ListPending, ListTurns, LiveRun, PendingCall
from actors.layers.spending.messages import GetTurnBudgets, GetUsage, UsageReport, UsedBudget
from actors.messages import protocol as p
from actors.messages.content import FunctionCall
from actors.messages.event import USER, Event, Usage, decode_event
from actors.messages.json_types import JsonObject
from actors.messages.session import SessionKey
from actors.messages.shown import Shown
from actors.messages.turn_info import TurnInfo
from runtime.engine.interface import Engine

IN_LINE = 1_000
"""Turns of a session's line that are looked at."""


async def description_of(engine: Engine, key: SessionKey, invocation_id: str) -> TurnDescription:
    """All that is known of a turn.

    Raises:
        InvocationNotFoundError, SessionNotFoundError: there is no such turn, or session.
        StoreError: the store cannot be read.
    """
    turn = await get_turn(engine.session, key, invocation_id)
    account = TurnAccount()
    if turn.first_seq:
        await _read(engine, key, turn, account)
    report = await _usage(engine, key, invocation_id)
    found = TurnDescription(
        turn=turn,
        message=account.message,
        agents=account.agents,
        usage=account.usage,
        losses=dict(Counter(lost.agent for lost in turn.lost)),
        traceback=account.traceback,
        budgets=await _budgets(engine, key, invocation_id),
        money=report.total.money,
        currency=report.currency,
    )
    if turn.state == "waiting":
        return msgspec.structs.replace(found, turns_before=await _turns_before(engine, key, invocation_id))
    pending = await _pending(engine, key, turn) if turn.state in ("running", "paused") else ()
    if turn.state != "running":
        return msgspec.structs.replace(found, pending=pending)
    running = await engine.runner.ask(GetRunningTurn(key=key, invocation_id=invocation_id))
    waits = (await engine.limiter.ask(GetWaitingCalls(session=key))).calls if engine.limiter is not None else ()
    asked = {call.call_id for call in pending}
    return msgspec.structs.replace(
        found,
        runs=running.runs,
        transfers=running.transfers,
        llm_calls=running.llm_calls,
        tool_calls=[call for call in account.open_calls if call.call_id not in asked],
        model_waits=waits,
        pending=pending,
    )


async def _read(engine: Engine, key: SessionKey, turn: TurnInfo, account: TurnAccount) -> None:
    """Take in the events of a turn, page by page: there may be those of other turns between them."""
    after_seq, more = turn.first_seq - 1, True
    while more:
        before_seq = turn.last_seq + 1 if turn.state != "running" else None
        message = p.ReadLog(key=key, after_seq=after_seq, before_seq=before_seq, limit=IN_LINE)
        page = await engine.session.ask(message)
        events = (decode_event(stored.raw, stored.seq) for stored in page.events)
        account.add_all(event for event in events if event.invocation_id == turn.invocation_id)
        more = page.more and bool(page.events)
        after_seq = page.events[-1].seq if page.events else after_seq


async def _budgets(engine: Engine, key: SessionKey, invocation_id: str) -> Sequence[UsedBudget]:
    try:
        return (await engine.session.ask(GetTurnBudgets(key=key, invocation_id=invocation_id))).budgets
    except NotEncodableError:
        # The deployment is of a release before this message: what else it knows of the turn is shown.
        return ()


async def _usage(engine: Engine, key: SessionKey, invocation_id: str) -> UsageReport:
    wanted = GetUsage(app=key.app, user=key.user, session=key.session, invocation_id=invocation_id)
    try:
        return (await engine.session.ask(wanted)).report
    except StoreError:
        # A store of users' own may report no usage. One that is away has failed before.
        return UsageReport()


async def _pending(engine: Engine, key: SessionKey, turn: TurnInfo) -> Sequence[PendingCall]:
    message = ListPending(
        app=key.app, user=key.user, session=key.session, invocation_id=turn.invocation_id, with_open=turn.state == "running"
    )
    return (await engine.session.ask(message)).calls


async def _turns_before(engine: Engine, key: SessionKey, invocation_id: str) -> int:
    """Count the turns of the session that come before one that waits: those in line, and the one that runs."""
    turns = []
    for state in ("waiting", "running"):
        wanted = ListTurns(app=key.app, user=key.user, session=key.session, state=state, limit=IN_LINE)
        turns.append([each.invocation_id for each in await list_turns(engine.session, wanted)])
    waiting, running = turns
    return len(running) + (waiting.index(invocation_id) if invocation_id in waiting else 0)


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


class TurnAccount:
    """Takes in the events of a turn, oldest first.

    Attributes:
        message: the text that began the turn.
        traceback: of the failure with which its log ends; "" where it does not end with one, or no code has failed.
    """

    def __init__(self) -> None:
        self.message = ""
        self.traceback = ""
        self._shares: dict[str, AgentShare] = {}
        self._open: dict[str, OpenToolCall] = {}
        self._has_begun = False

    def add_all(self, events: Iterable[Event]) -> None:
        """Take in events."""
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        for response in event.function_responses():
            self._open.pop(response.id or "", None)
        self.traceback = event.error_traceback or "" if event.error_code else ""
        if event.author == USER:
            if not self._has_begun:
                self._has_begun, self.message = True, event.text
            return
        # An agent that speaks as a tool has a mark before its name.
        agent = event.author.lstrip("@")
        calls = list(event.function_calls())
        share = self._shares.get(agent) or AgentShare(agent=agent, first_s=event.timestamp)
        self._shares[agent] = msgspec.structs.replace(
            share,
            events=share.events + 1,
            tool_calls=share.tool_calls + len(calls),
            failed_tools=share.failed_tools + sum(set(each.response) == {"error"} for each in event.function_responses()),
            usage=added(share.usage, event.usage) if event.usage is not None else share.usage,
            last_s=event.timestamp,
        )
        self._open.update((call.id or "", _open(event, agent, call)) for call in calls)

    @property
    def agents(self) -> Sequence[AgentShare]:
        """The share of each agent, in the order of their first events."""
        return list(self._shares.values())

    @property
    def usage(self) -> Usage:
        """Tokens of all agents."""
        total = Usage()
        for share in self._shares.values():
            total = added(total, share.usage)
        return total

    @property
    def open_calls(self) -> Sequence[OpenToolCall]:
        """The calls that have no response, oldest first."""
        return list(self._open.values())


def added(one: Usage, other: Usage) -> Usage:
    """The sum of tokens; what neither tells stays untold."""
    fields = Usage.__struct_fields__
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in fields)
    return Usage(**{name: (first or 0) + (second or 0) for name, first, second in pairs if (first, second) != (None, None)})


def _open(event: Event, agent: str, call: FunctionCall) -> OpenToolCall:
    return OpenToolCall(
        call_id=call.id or "", name=call.name, args=call.args, agent=agent, seq=event.seq, called_s=event.timestamp
    )
