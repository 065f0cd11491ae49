"""Earlier turns of a session: rewinds and forks, with their artifacts, and messages that replace earlier ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from actors.layers.forks import ForkSession
from actors.layers.listing.client import get_turn
from actors.layers.rewinds import RewindRequest
from actors.layers.stores.schedule import ScheduleRow, WaitingMessage, message_name, waiting_row
from actors.messages import protocol as p
from actors.messages.event import decode_event, now_s
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey
from runtime.driver.engine_client import EngineClient

USERS = "user:"
"""Artifacts with such names are those of all sessions of a user."""


async def rewind(client: EngineClient, key: SessionKey, invocation_id: str, begins: ScheduleRow | None = None) -> None:
    """Take a session back to before a turn. Raises what SessionsService.rewind raises.

    Args:
        begins: see RewindRequest.
    """
    info = await get_turn(client.session, key, invocation_id)
    first: dict[str, int] = {}
    async for saved in _saved(client, key, max(info.first_seq - 1, 0), None):
        first = {**saved, **first}
    await client.session.ask(RewindRequest(key=key, invocation_id=invocation_id, begins=begins))
    if first:
        await asyncio.to_thread(_restore, client, key, first)


async def fork_session(
    client: EngineClient, key: SessionKey, invocation_id: str, fork: str, begins: ScheduleRow | None = None
) -> SessionKey:
    """Make a session that has all of another one up to the end of a turn. Raises what SessionsService.fork raises.

    Args:
        begins: see ForkSession.
    """
    info = await get_turn(client.session, key, invocation_id)
    await client.session.ask(ForkSession(key=key, invocation_id=invocation_id, fork=fork, begins=begins))
    newest: dict[str, int] = {}
    async for saved in _saved(client, key, 0, info.last_seq + 1):
        newest.update(saved)
    to = SessionKey(key.app, key.user, fork)
    await asyncio.to_thread(_copy, client, key, to, newest)
    return to


async def _saved(client: EngineClient, key: SessionKey, after_seq: int, before_seq: int | None) -> AsyncIterator[dict[str, int]]:
    """Yield the artifacts of the session alone that each event between two positions has saved: their versions, by name."""
    more = True
    while more:
        page = await client.session.ask(
            p.ReadLog(key=key, after_seq=after_seq, before_seq=before_seq, limit=1_000, newest_first=False)
        )
        for stored in page.events:
            saved = decode_event(stored.raw, stored.seq).actions.artifact_delta
            yield {name: version for name, version in saved.items() if not name.startswith(USERS)}
        more = page.more and bool(page.events)
        after_seq = page.events[-1].seq if page.events else after_seq


def _copy(client: EngineClient, key: SessionKey, to: SessionKey, newest: dict[str, int]) -> None:
    store = client.artifacts
    for name, last in newest.items():
        for version in range(last + 1):
            part = store.load(key, name, version)
            # One that was deleted leaves no hole: versions are numbered as they come.
            if part is not None:
                store.save(to, name, part)


def _restore(client: EngineClient, key: SessionKey, first: dict[str, int]) -> None:
    """Bring artifacts back to before the versions that were saved first: by another version, or by deletion if none was."""
    store = client.artifacts
    for name, version in first.items():
        part = store.load(key, name, version - 1) if version > 0 else None
        if part is None:
            store.delete(key, name)
        else:
            store.save(key, name, part)


BEGINS_S = 5
"""So long after the rewind or the fork a Runner begins the turn, if this program is lost: until then artifacts are restored."""

Start = Callable[[], Awaitable[p.StartTurn]]
"""Does what comes before the turn, and returns the message that starts it."""


def replacing(client: EngineClient, invocation_id: str, message: p.StartTurn) -> Start:
    """Return the start that takes the session back to before a turn. Then the message begins its turn, whatever is lost."""

    async def rewound() -> p.StartTurn:
        row, start = _begun_later(message)
        await rewind(client, message.key, invocation_id, row)
        return start

    return rewound


def _begun_later(message: p.StartTurn) -> tuple[ScheduleRow, p.StartTurn]:
    """The message as it waits, and the request that begins its turn before that is due."""
    key, sent_s = message.key, now_s()
    due_s = int(sent_s) + BEGINS_S
    waiting = WaitingMessage(state_delta=message.state_delta, traceparent=message.traceparent)
    name = message_name(key, sent_s, message.invocation_id, is_new=True)
    row = waiting_row(key, name, message.invocation_id, waiting, message.config, at_s=due_s, content=message.content)
    due = ScheduledTime(name, row.id, due_s)
    return row, msgspec.structs.replace(message, due=due, repeatable=True, auto_create=False)


def beside(client: EngineClient, key: SessionKey, invocation_id: str, message: p.StartTurn) -> Start:
    """Return the start that forks a session up to before a turn. Then the message begins its turn there, whatever is lost."""

    async def forked() -> p.StartTurn:
        info = await get_turn(client.session, key, invocation_id)
        page = await client.session.ask(p.ReadLog(key=key, before_seq=info.first_seq, limit=1, newest_first=True))
        if not page.events:
            # It was the first turn: the fork has nothing yet.
            return msgspec.structs.replace(message, auto_create=True)
        before = decode_event(page.events[-1].raw, page.events[-1].seq).invocation_id
        row, start = _begun_later(message)
        await fork_session(client, key, before, message.key.session, row)
        return start

    return forked
