"""Recorded model calls as programs get them: with their requests put together again."""

from __future__ import annotations

import msgspec

from actors.layers.recording.messages import ModelCallsReply
from actors.messages.llm.model import LlmRequest
from actors.messages.llm.recorded import PackedCall, RecordedCall
from actors.rules.recording.packing import MissingPartError, unpacked

GONE = "parts of it were deleted, or are stored no more"
"""Why a request that was recorded is not there."""


def recorded_calls(invocation_id: str, reply: ModelCallsReply) -> list[RecordedCall]:
    """The model calls in a reply about a turn."""
    parts = {part.digest: part.raw for part in reply.parts}
    return [_recorded(invocation_id, stored.seq, stored.call, parts) for stored in reply.calls]


def _recorded(invocation_id: str, seq: int, call: PackedCall, parts: dict[bytes, bytes]) -> RecordedCall:
    request: LlmRequest | None = None
    omitted = call.omitted
    if call.request is not None:
        try:
            request = unpacked(call.request, parts)
        except (MissingPartError, msgspec.DecodeError):
            omitted = GONE
    return RecordedCall(
        invocation_id=invocation_id,
        agent=call.agent,
        event_id=call.id,
        seq=seq,
        begun_s=call.begun_s,
        ended_s=call.ended_s,
        streamed=call.streamed,
        attempts=call.attempts,
        usage=call.usage,
        error=call.error,
        request=request,
        omitted=omitted,
    )
