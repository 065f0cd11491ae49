"""The few fields of an encoded event that the Session actor needs, read without decoding the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.codec import encode
from actors.messages.event import Event


class _CallScan(msgspec.Struct, gc=False):
    id: str | None = None
    name: str = ""


class _PartScan(msgspec.Struct, rename="camel", gc=False):
    function_call: _CallScan | None = None
    function_response: _CallScan | None = None


class _ContentScan(msgspec.Struct, gc=False):
    role: str = ""
    parts: Sequence[_PartScan] = ()


class _ActionsScan(msgspec.Struct, rename="camel", gc=False):
    state_delta: dict[str, Any] = {}
    transfer_to_agent: str | None = None
    agent_state: dict[str, Any] | None = None


class EventScan(msgspec.Struct, rename="camel", gc=False):
    """As much of an event as its keeper must know. The rest of its bytes is passed over, not decoded."""

    id: str = ""
    invocation_id: str = ""
    author: str = ""
    timestamp: float = 0.0
    branch: str | None = None
    content: _ContentScan | None = None
    actions: _ActionsScan = msgspec.field(default_factory=_ActionsScan)

    def calls(self) -> dict[str, str]:
        """Names of the functions called, by the calls' ids."""
        parts = self.content.parts if self.content is not None else ()
        return {call.id: call.name for part in parts if (call := part.function_call) is not None and call.id}

    def answered(self) -> list[str]:
        """Ids of the calls answered."""
        parts = self.content.parts if self.content is not None else ()
        return [answer.id for part in parts if (answer := part.function_response) is not None and answer.id]


_scanner = msgspec.msgpack.Decoder(EventScan)


def scan(raw: bytes) -> EventScan:
    """Look into an encoded event. Raises msgspec.ValidationError when it is none."""
    return _scanner.decode(raw)


def new_event(event: Event) -> tuple[bytes, EventScan]:
    """An event that the Session actor itself makes, in the form that it handles."""
    raw = encode(event)
    return raw, scan(raw)
