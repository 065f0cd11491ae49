"""Sessions between turns: to create, read, list and delete them, and to add events to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from actors.errors import SessionBusyError, SessionExistsError, SessionNotFoundError
from actors.interfaces.stores import RemoveSession, Write
from actors.messages import protocol as p
from actors.messages.event import decode_event
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey
from actors.rules.checks import state as scopes
from actors.rules.failures import failure
from actors.session.log.event_scan import new_event, scan
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts
from actors.session.subscriptions import Subscriptions

AT_ONCE = 1_000
"""Sessions of a list that are put together before others have their turn."""


class StoredSessions:
    """Answers the requests about sessions between turns."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader
        self._writer = parts.writer
        self._admission = parts.admission

    async def create_session(self, message: p.CreateSessionRequest) -> p.SessionReply:
        """Create a session. Raises SessionExistsError, RequestError, StoreError."""

        def check(new: SessionLog) -> None:
            self._admission.new(message.key, message.state, new.app_state, new.user_state)

        try:
            return p.SessionReply(session=_info(await self._logs.create(message.key, message.state, check)))
        except SessionExistsError:
            if not message.again or await self._reader.events(message.key, limit=1, newest=True):
                raise
            log = await self._logs.load(message.key)
            await self._parts.shared.refresh(message.key)
            found = _info(log)
            if not message.state.items() <= found.state.items():
                raise
            return p.SessionReply(session=found)

    async def get_session(self, message: p.GetSessionRequest) -> p.SessionReply:
        """Read a session. Raises StoreError."""
        log = await self._logs.find(message.key)
        if log is None:
            return p.SessionReply()
        await self._parts.shared.refresh(message.key)
        limit, after_s = message.num_recent_events, message.after_timestamp
        events: list[p.StoredEvent] = []
        if message.after_seq is not None:
            generation = log.generation
            events = await self._reader.page(message.key, message.after_seq, after_s=after_s)
            more = bool(events) and events[-1].seq < log.committed_seq
            return p.SessionReply(session=msgspec.structs.replace(_info(log, events), more=more, generation=generation))
        if limit is None or limit > 0:
            events = await self._reader.events(message.key, limit=limit, after_s=after_s, newest=limit is not None)
        return p.SessionReply(session=_info(log, events))

    async def list_sessions(self, message: p.ListSessionsRequest) -> p.SessionsReply:
        """List sessions. Raises StoreError."""
        infos = []
        rows = await self._reader.sessions(message.app, message.user, message.limit, message.before)
        shared = await self._parts.shared.of_users(message.app, {row.key.user for row in rows})
        for number, row in enumerate(rows, 1):
            app_state, user_state = shared[row.key.user]
            state = scopes.merge(scopes.Scopes(row.state, user_state, app_state, {}))
            infos.append(p.SessionInfo(key=row.key, state=state, updated_s=row.updated_s))
            if number % AT_ONCE == 0:
                # Turns go on beside a list of all there is.
                await asyncio.sleep(0)
        return p.SessionsReply(sessions=infos)

    async def delete_session(self, message: p.DeleteSessionRequest) -> p.Ack:
        """Delete a session, with a turn that is lost. Raises SessionBusyError when any other turn runs or waits, StoreError."""
        log = await self._logs.find(message.key)
        if log is not None:
            if log.turn is None or log.turn.runner:
                refuse_if_busy(log)
            log.queue.is_taken = True
            try:
                await remove_session(self._parts, log)
            finally:
                if log.turn is None:
                    log.queue.start_next()
        return p.Ack()

    async def append_event(self, message: p.AppendEventRequest) -> p.Appended:
        """Store an event that belongs to no turn. Raises SessionNotFoundError, SessionBusyError, RequestError, StoreError."""
        log = await self._logs.load(message.key)
        await self._parts.shared.refresh(message.key)
        refuse_if_busy(log)
        raw, event = message.event, scan(message.event)
        if any(key.startswith(scopes.TEMP) for key in event.actions.state_delta):
            # Only a turn has `temp:` state, and this event belongs to none.
            given = decode_event(raw, 0)
            kept = msgspec.structs.replace(given.actions, state_delta=scopes.without_temp(given.actions.state_delta))
            raw, event = new_event(msgspec.structs.replace(given, actions=kept))
        position = await self._reader.position(message.key, event.id)
        if position is not None and (await self._reader.events(message.key, after_seq=position[0] - 1, limit=1))[0].raw == raw:
            # Sent again, since the reply was lost with the process that gave it.
            return p.Appended(first_seq=position[0])
        # The log may have been evicted, or a turn may have begun, while the store was asked.
        log = await self._logs.load(message.key)
        refuse_if_busy(log)
        self._admission.event(log, raw, event)
        first_seq = log.head_seq + 1
        await self._writer.add(log, [(raw, event)])
        return p.Appended(first_seq=first_seq)


def refuse_if_busy(log: SessionLog) -> None:
    """Raise SessionBusyError where a turn runs, or waits."""
    if not log.queue.is_idle():
        raise SessionBusyError(log.key.session, log.open_id())


def _info(log: SessionLog, events: Sequence[p.StoredEvent] = ()) -> p.SessionInfo:
    return p.SessionInfo(key=log.key, state=log.merged_state(temp=False), events=events, updated_s=log.updated_s)


async def remove_session(parts: SessionParts, log: SessionLog, *also: Write) -> None:
    """Remove a session, with a turn that is lost, and end what follows it.

    Args:
        log: its queue is taken, and let go by the caller.
        also: what is stored in the same step.

    Raises:
        SessionBusyError: background runs of it work. Nothing is removed.
        StoreError: nothing is removed.
    """
    turn, lost = log.turn, log.open_id()
    log.turn = None
    try:
        left = [write for hook in parts.removal_hooks for write in await hook(log.key)]
        await parts.logs.write(log, [RemoveSession(log.key), *left, *also])
    except BaseException:
        log.turn = turn
        raise
    parts.logs.evict(log.key)
    end_gone(parts.subscriptions, log.key, lost)


def end_gone(subscriptions: Subscriptions, key: SessionKey, lost: str) -> None:
    """End what follows a session that is not there any more, and its turn that was lost; "": it had none."""
    for followed in (WHOLE_SESSION, lost):
        subscriptions.publish_end(key, followed, _gone(key))
    subscriptions.forget_answers(key)


def _gone(key: SessionKey) -> p.Failed:
    """The outcome with which the following of a deleted session ends."""
    return failure(SessionNotFoundError(key.app, key.user, key.session))
