"""Recorded model calls: driver to Session actor."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.llm.recorded import PackedCall, PackedPart
from actors.messages.protocol.base import Message
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey


class StoredCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The record of a model call, and the position of the event with which it was stored."""

    seq: int
    call: PackedCall


class ModelCallsReply(Message, frozen=True, kw_only=True):
    """Records of model calls. `parts`: all of their requests that are there; `more`: there are further calls."""

    calls: Sequence[StoredCall] = ()
    parts: Sequence[PackedPart] = ()
    more: bool = False


class GetModelCalls(Request[ModelCallsReply], frozen=True, kw_only=True):
    """Ask for the recorded model calls of a turn, oldest first. The reply is ModelCallsReply.

    Attributes:
        after: only calls after this one, by its `begun_s` and its id.
        limit: at most so many.
    """

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    invocation_id: str
    after: tuple[float, str] | None = None
    limit: int = 100
