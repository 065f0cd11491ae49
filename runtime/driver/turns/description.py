"""Describes a turn: what the log says, what its Runner is doing, and what the limiter has in line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from actors.errors import NotEncodableError, StoreError
from actors.layers.limiter.messages import GetWaitingCalls
from actors.layers.listing.client import get_turn, list_turns
from actors.layers.listing.messages import GetRunningTurn, ListPending, ListTurns, PendingCall
from actors.layers.spending.messages import GetTurnBudgets, GetUsage, UsageReport, UsedBudget
from actors.messages import protocol as p
from actors.messages.event import decode_event
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from runtime.driver.turns.turn_account import TurnAccount
from runtime.driver.turns.turn_description import TurnDescription
from runtime.engine.interface import Engine

IN_LINE = 1_000
"""Turns of a session's line that are looked at."""


async def describe_turn(engine: Engine, key: SessionKey, invocation_id: str) -> TurnDescription:
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
