"""The entry of the log: an Event, and the actions that ride on it.

An event is encoded once, by its author. Its place in the log, `seq`, is given later by the Session actor and travels
beside the encoded bytes, so it is no part of them. The JSON form has ADK's names (semantics.md section 6).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from actors.messages.content import Content, FunctionCall, FunctionResponse
from actors.messages.flow import FlowMark

USER = "user"
"""The author of everything a person says."""


class EventActions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """What an event does besides being said."""

    state_delta: dict[str, Any] = {}
    artifact_delta: dict[str, int] = {}
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    skip_summarization: bool | None = None
    rewind_before_invocation_id: str | None = None
    agent_state: dict[str, Any] | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Tokens of one model response, by google-genai's names."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    total_token_count: int | None = None


NO_ACTIONS = EventActions()


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """One entry of a session's log.

    Attributes:
        id: unique in the session; given by the author, so that an append can be repeated safely.
        invocation_id: the turn it belongs to.
        seq: its place in the session's log, from 1 and without gaps; 0 until the Session actor has stored it.
        author: the name of the agent, or `user`.
        timestamp: seconds since the epoch, by the author's clock.
        branch: dotted path of the parallel branch it was made on; None outside of any.
        partial: a piece of a streamed response: delivered, never stored.
        error_code: class name of the exception that ended the agent's run; then `content` is None.
        long_running_tool_ids: ids of the calls in `content` whose answer may come in a later turn.
        flow: what the event says of a flow; None when it belongs to none.
    """

    id: str = ""
    invocation_id: str = ""
    seq: int = 0
    author: str = ""
    timestamp: float = 0.0
    branch: str | None = None
    content: Content | None = None
    partial: bool | None = None
    turn_complete: bool | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage | None = msgspec.field(default=None, name="usageMetadata")
    long_running_tool_ids: Sequence[str] = ()
    custom_metadata: dict[str, Any] | None = None
    actions: EventActions = NO_ACTIONS
    flow: FlowMark | None = None

    @property
    def text(self) -> str:
        """All that the event says in words, thoughts left out; "" when it says nothing."""
        return self.content.text if self.content is not None else ""

    def function_calls(self) -> Iterator[FunctionCall]:
        """The calls in its content, in order."""
        return self.content.function_calls() if self.content is not None else iter(())

    def function_responses(self) -> Iterator[FunctionResponse]:
        """The responses in its content, in order."""
        return self.content.function_responses() if self.content is not None else iter(())

    def is_final_response(self) -> bool:
        """True when the agent's run ends with this event (semantics.md 5.1)."""
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        return not self.partial and not any(self.function_calls()) and not any(self.function_responses())

    def to_json(self) -> str:
        """The event as ADK writes it: camelCase keys, bytes as base64, defaults left out."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Event:
        """Read back what `to_json` wrote.

        Raises:
            msgspec.ValidationError: the text is no event; the message names the field.
        """
        return msgspec.json.decode(text, type=cls)


def new_event_id() -> str:
    """A fresh id for an event."""
    return uuid.uuid4().hex


def new_invocation_id() -> str:
    """A fresh id for a turn, in ADK's form."""
    return f"e-{uuid.uuid4()}"


def now_s() -> float:
    """Seconds since the epoch, as they stand in events."""
    return time.time()
