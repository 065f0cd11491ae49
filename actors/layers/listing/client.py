"""Asks one Session actor, or all of several shards and stores, which turns there are."""

from __future__ import annotations

import asyncio

import msgspec

from actors.layers.listing.messages import CountTurns, GetTurn, ListTurns, TurnCounts
from actors.layers.placing.client import StoresSessionRef
from actors.messages.protocol.base import key_of
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from actors.refs import SessionRef


async def list_turns(session: SessionRef, message: ListTurns) -> list[TurnInfo]:
    """List turns, those in line first, then the one that began last. Raises StoreError."""
    if not isinstance(session, StoresSessionRef):
        return await _of_store(session, message)
    if message.user is not None:
        return await session.at_store((message.app, message.user), lambda store: _of_store(store, message))
    return message.merged(await asyncio.gather(*(_of_store(store, message) for store in session.stores)))


async def count_turns(session: SessionRef, app: str) -> TurnCounts:
    """Count the turns of an app that have not ended. Raises StoreError."""
    stores = session.stores if isinstance(session, StoresSessionRef) else [session]
    counted = await asyncio.gather(*(_counted(store, app) for store in stores))
    return TurnCounts(
        waiting=sum(each.waiting for each in counted),
        running=sum(each.running for each in counted),
        paused=sum(each.paused for each in counted),
    )


async def get_turn(session: SessionRef, key: SessionKey, invocation_id: str) -> TurnInfo:
    """Where a turn is. Raises InvocationNotFoundError, SessionNotFoundError, StoreError."""
    return (await session.ask(GetTurn(key=key, invocation_id=invocation_id))).turns[0]


async def _of_store(session: SessionRef, message: ListTurns) -> list[TurnInfo]:
    """The turns of one store: any of its Session actors reads the store, and each knows its own lines."""
    if len(session.shards) == 1 or message.session is not None or message.before is not None:
        return await _pages(session, message)
    chosen = session.of(key_of(message))
    in_line = msgspec.structs.replace(message, state="waiting")
    others = [shard for shard in session.shards if shard is not chosen and message.state in ("", "waiting")]
    found, *of_others = await asyncio.gather(_pages(chosen, message), *(_pages(other, in_line) for other in others))
    waiting = {(turn.user_id, turn.session_id, turn.invocation_id): turn for turns in of_others for turn in turns}
    rest = [turn for turn in found if (turn.user_id, turn.session_id, turn.invocation_id) not in waiting]
    return [*waiting.values(), *rest][: message.limit]


async def _pages(session: SessionRef, message: ListTurns) -> list[TurnInfo]:
    found: list[TurnInfo] = []
    while len(found) < message.limit:
        reply = await session.ask(msgspec.structs.replace(message, limit=message.limit - len(found)))
        found += reply.turns
        if reply.next is None:
            break
        message = msgspec.structs.replace(message, before=reply.next)
    return found


async def _counted(session: SessionRef, app: str) -> TurnCounts:
    """Those of one store: the first of its Session actors asks the store, and each knows its own lines.

    A paused turn whose answer waits in line is in line; its record says that it is paused.
    """
    asked = (shard.ask(CountTurns(app=app, in_line_only=at > 0)) for at, shard in enumerate(session.shards))
    counted = await asyncio.gather(*asked)
    continued = sum(each.continued for each in counted)
    return TurnCounts(
        waiting=sum(each.in_line for each in counted),
        running=sum(each.running for each in counted),
        paused=max(0, sum(each.paused for each in counted) - continued),
    )
