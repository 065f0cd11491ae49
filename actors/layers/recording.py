"""Recorded model calls, for programs that look at a turn."""

from __future__ import annotations

from actors.actor import Handlers
from actors.errors import InvocationNotFoundError
from actors.interfaces.records import ModelCallRow
from actors.messages import protocol as p
from actors.messages.codec import decode
from actors.messages.event import now_s
from actors.messages.llm.recorded import PackedCall, PackedPart
from actors.rules.recording.packing import reachable
from actors.session.service import SessionService
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.parts import SessionParts

MAX_CALLS = 100
"""Calls in one reply."""


class RecordedRequests(SessionService):
    """Answers GetModelCalls."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._lookup = TurnLookup(parts)

    def handlers(self) -> Handlers:
        """Its message."""
        return {p.GetModelCalls: self.get_model_calls}

    async def get_model_calls(self, message: p.GetModelCalls) -> p.ModelCallsReply:
        """The recorded calls of a turn. Raises InvocationNotFoundError, SessionNotFoundError, StoreError."""
        key, invocation_id = message.key, message.invocation_id
        log, row = await self._lookup.log_and_row(key, invocation_id)
        if row is None and not log.queue.has(invocation_id):
            raise InvocationNotFoundError(invocation_id, key.session)
        store = self._parts.access.store
        if row is None:
            return p.ModelCallsReply()
        limit = min(message.limit, MAX_CALLS)
        keep_s = self._parts.environment.keep_calls_s
        since_s = now_s() - keep_s if keep_s is not None else 0.0

        def read() -> tuple[list[ModelCallRow], list[PackedCall], list[PackedPart]]:
            rows = store.model_calls(key, invocation_id, after=message.after, limit=limit)
            calls = [decode(row.raw, PackedCall) for row in rows]
            requests = [call.request for call in calls if call.request is not None]
            digests = reachable(requests, lambda some: store.model_call_parts(key, some))
            found = store.model_call_parts(key, sorted(digests))
            return rows, calls, [PackedPart(digest, raw) for digest, raw in found.items()]

        await self._parts.access.commits.flush()
        rows, calls, parts = await self._parts.access.read(read)
        kept = [p.StoredCall(row.seq, call) for row, call in zip(rows, calls, strict=True) if row.begun_s >= since_s]
        return p.ModelCallsReply(calls=kept, parts=parts, more=len(rows) == limit)
