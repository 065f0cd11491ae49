"""Recorded model calls: they are stored with the events of their runs, shown to programs, and deleted when they are old."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from actors.actor import Handlers
from actors.errors import InvocationNotFoundError, RaygroveError, UserArrivingError, UserElsewhereError
from actors.interfaces.stores import Write
from actors.layers.holds import UserHolds
from actors.layers.recording.messages import GetModelCalls, ModelCallsReply, StoredCall
from actors.layers.recording.rules import reachable
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import AddModelCall, DeleteModelCalls, ModelCallRow
from actors.messages import protocol as p
from actors.messages.codec import decode, encode
from actors.messages.event import now_s
from actors.messages.protocol.log import PackedCall, PackedPart
from actors.messages.session import SessionKey
from actors.rules.sharding import holds
from actors.session.log.session_log import SessionLog
from actors.session.log.writer import Events
from actors.session.service import SessionParts, SessionService
from actors.session.turns.lookup import TurnLookup

logger = logging.getLogger(__name__)

FIRST_S, EACH_S = 60.0, 3600.0
"""Seconds after which the actor looks for old calls first, and then each time, as long as turns write."""

SESSIONS = 20
"""Sessions whose old calls are looked for at once."""

MAX_CALLS = 100
"""Calls in one reply."""


class RecordedCalls(SessionService):
    """Answers GetModelCalls, stores calls that come with events, and deletes old ones."""

    def __init__(self, parts: SessionParts, user_holds: UserHolds) -> None:
        self._parts = parts
        self._user_holds = user_holds
        self._lookup = TurnLookup(parts)
        self._keep_s = parts.environment.keep_calls_s
        self._clock = parts.environment.clock
        self._store = store_of(parts.access)
        self._next_s: float | None = None
        self._deletion: asyncio.Task[None] | None = None
        parts.append_hooks.append(self._writes)

    def handlers(self) -> Handlers:
        """Its message."""
        return {GetModelCalls: self.get_model_calls}

    async def get_model_calls(self, message: GetModelCalls) -> ModelCallsReply:
        """The recorded calls of a turn. Raises InvocationNotFoundError, SessionNotFoundError, StoreError."""
        key, invocation_id = message.key, message.invocation_id
        log, row = await self._lookup.log_and_row(key, invocation_id)
        if row is None and not log.queue.has(invocation_id):
            raise InvocationNotFoundError(invocation_id, key.session)
        if row is None:
            return ModelCallsReply()
        limit = min(message.limit, MAX_CALLS)
        since_s = now_s() - self._keep_s if self._keep_s is not None else 0.0

        def read() -> tuple[list[ModelCallRow], list[PackedCall], list[PackedPart]]:
            rows = self._store.model_calls(key, invocation_id, after=message.after, limit=limit)
            calls = [decode(row.raw, PackedCall) for row in rows]
            requests = [call.request for call in calls if call.request is not None]
            digests = reachable(requests, lambda some: self._store.model_call_parts(key, some))
            found = self._store.model_call_parts(key, sorted(digests))
            return rows, calls, [PackedPart(digest, raw) for digest, raw in found.items()]

        await self._parts.access.commits.flush()
        rows, calls, parts = await self._parts.access.read(read)
        kept = [StoredCall(row.seq, call) for row, call in zip(rows, calls, strict=True) if row.begun_s >= since_s]
        return ModelCallsReply(calls=kept, parts=parts, more=len(rows) == limit)

    def _writes(self, log: SessionLog, message: p.Append, events: Events) -> Sequence[Write]:
        """The writes for the calls that come with events: see AppendHook."""
        self._delete_old_soon(log.key.app)
        if not message.calls:
            return ()
        seqs = {event.id: log.head_seq + number for number, (_, event) in enumerate(events, 1)}
        first = log.head_seq + (1 if events else 0)
        invocation_id, parts = message.turn.invocation_id, message.parts
        made: list[Write] = []
        for call in message.calls:
            row = ModelCallRow(
                id=call.id,
                invocation_id=invocation_id,
                seq=seqs.get(call.id, first),
                begun_s=call.begun_s,
                raw=encode(call),
            )
            made.append(AddModelCall(log.key, row, parts))
            parts = ()
        return made

    def _delete_old_soon(self, app: str) -> None:
        """Delete old calls, if it was not looked for any for long: beside the turns, which do not wait for it."""
        if self._keep_s is None:
            return
        now = self._clock()
        if self._next_s is None:
            self._next_s = now + FIRST_S
        elif now >= self._next_s and self._deletion is None:
            self._next_s = now + EACH_S
            self._deletion = asyncio.create_task(self._delete_old(app, now_s() - self._keep_s))
            self._deletion.add_done_callback(self._deleted)

    async def _delete_old(self, app: str, before_s: float) -> None:
        limit = SESSIONS * self._parts.shard.of
        done: set[SessionKey] = set()
        while True:
            found = await self._parts.access.read(lambda: self._store.sessions_with_old_calls(app, before_s, limit=limit))
            left = [key for key in found if holds(self._parts.shard, key) and key not in done]
            if not left:
                return
            for key in left:
                with suppress(UserElsewhereError, UserArrivingError):
                    async with self._user_holds.entered(key):
                        log = await self._parts.logs.find(key)
                        if log is not None:
                            await self._parts.logs.write(log, [DeleteModelCalls(key, before_s)])
            done.update(left)

    def _deleted(self, task: asyncio.Task[None]) -> None:
        self._deletion = None
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, RaygroveError):
            logger.warning("old model calls were not deleted, and will be in %.0f s: %s", EACH_S, error)
        elif error is not None:
            logger.error("old model calls were not deleted", exc_info=error)

    async def close(self) -> None:
        """Stop deleting: what is left is deleted another time."""
        if self._deletion is not None:
            self._deletion.cancel()
            await asyncio.wait([self._deletion])
