"""An earlier message is replaced: the session is taken back to before its turn, and the new one begins a turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from actors.layers.listing.client import get_turn
from actors.layers.stores.schedule import ScheduleRow, WaitingMessage, message_name, waiting_row
from actors.messages import protocol as p
from actors.messages.event import decode_event, now_s
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey
from runtime.driver.engine_client import EngineClient
from runtime.driver.history import fork_session, rewind

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
