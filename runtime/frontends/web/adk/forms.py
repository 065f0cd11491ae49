"""Bodies of ADK's requests: keys in camelCase or snake_case, and unknown ones are passed over."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from actors.messages import typed
from actors.messages.config import OnConcurrentTurn
from actors.messages.json_types import JsonObject
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.problems import HttpError

T = TypeVar("T")

_WORD = re.compile(r"_([a-z0-9])")


class RunAgentRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A turn to run: see RunAgentRequest of ADK, which has no `on_concurrent_turn`."""

    app_name: str
    user_id: str
    session_id: str
    new_message: JsonObject | None = None
    streaming: bool = False
    state_delta: JsonObject | None = None
    function_call_event_id: str | None = None
    invocation_id: str | None = None
    custom_metadata: JsonObject | None = None
    on_concurrent_turn: OnConcurrentTurn | None = None


class NewAdkSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session to create: see CreateSessionRequest of ADK."""

    session_id: str | None = None
    state: JsonObject | None = None
    events: Sequence[JsonObject] | None = None


class SessionUpdate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Changes of state."""

    state_delta: JsonObject


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An artifact to store."""

    filename: str
    artifact: JsonObject


class MemoryUpdate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The session to add to memory."""

    session_id: str


class SessionForm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session, as ADK's clients know it."""

    id: str
    app_name: str
    user_id: str
    state: JsonObject
    events: Sequence[JsonObject] = ()
    last_update_time: float = 0.0


async def body_of(call: Call, type: type[T]) -> T:
    """The body of a request. Raises HttpError with ADK's status for it, 422, when a field is missing or wrong."""
    given: JsonObject | None = await call.body(JsonObject | None)  # type: ignore[arg-type]
    plain = {_WORD.sub(lambda found: found[1].upper(), name): value for name, value in (given or {}).items()}
    try:
        return typed.convert(plain, type)
    except msgspec.ValidationError as error:
        raise HttpError(422, f"the body is wrong: {error}") from None
