"""The entry of the log: an Event, with the actions that it carries.

The author encodes an event once. The Session actor gives it its position in the log, `seq`, which is sent and stored beside the
encoded bytes and is no part of them. The JSON form has ADK's names (semantics.md section 6).
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Never

import msgspec

from actors.errors import NotEncodableError
from actors.messages import codec
from actors.messages.codec import encode, flaw
from actors.messages.content import Answer, Content, FunctionCall, FunctionResponse, Received, content_flaw
from actors.messages.flow import FlowMark
from actors.messages.graph import NodeInfo, Route
from actors.messages.json_types import JsonObject, JsonValue, Progress, StateDelta
from actors.messages.shown import Shown

USER = "user"
"""The author of the user's messages."""

FINGERPRINT = "raygrove:fingerprint"
"""The key of a request's fingerprint in the custom_metadata of the user's event that began its turn."""

RESET = "raygrove:reset"
"""The key in the custom_metadata of the event that says what of a turn was taken back: its invocationId, and the last eventId."""

READ_BY = "steered"
"""The key in the custom_metadata of a message that an agent of a running turn has read: the agent."""

SENDER = "sender"
"""The key in the custom_metadata of a message that another agent has sent: that agent."""

RUN = "run"
"""The key in the custom_metadata of a message about a background run: its id, its agent, and its status."""

ADDRESSED = "raygrove:agent"
"""The key in the custom_metadata of a message that is addressed to an agent: that agent."""

ADK_FIELDS = "adk"
"""The key of custom_metadata under which an event keeps what only google-adk knows of it."""

MORE_RESULTS = "raygrove:more_results"
"""The key in the custom_metadata of an event with results of tools that was stored while other calls ran: what its tools have
decided, which takes effect with the last event of the same response."""


def words_id(invocation_id: str) -> str:
    """The id of the event of words for which an agent may wait: the same however often their turn is asked for."""
    return f"words-{invocation_id}"


class RequestedInput(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """What a tool asks the user in the middle of a call. With the answer the call is made again.

    Attributes:
        question: what the user is asked, for people and programs.
        memo: what the tool gets back with the answer.
        is_confirmation: the answer is whether the user agrees to the call.
    """

    question: JsonObject
    memo: JsonObject = {}
    is_confirmation: bool = False


class EventCompaction(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A summary that agents are shown in place of earlier events. The log keeps these.

    Attributes:
        start_seq, end_seq: the places in the log of the first and the last event that it stands for.
        start_timestamp, end_timestamp: their times, in seconds since the epoch.
        compacted_content: the summary.
    """

    start_seq: int
    end_seq: int
    start_timestamp: float = 0.0
    end_timestamp: float = 0.0
    compacted_content: Content


class EventActions(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """What an event does besides being read.

    Attributes:
        state_delta: changes of state, by prefixed keys.
        artifact_delta: the versions of artifacts that were saved, by name.
        transfer_to_agent: the agent that takes the conversation over; None for no transfer.
        escalate: True ends the enclosing loop.
        skip_summarization: True ends the agent's run without another model call.
        rewind_before_invocation_id: the turn before which the session was rewound.
        agent_state: how far the agent's run is, in the agent's own words.
        route: of a node of a graph, the route or routes that the graph takes from it; None for none.
        requested_tool_confirmations: by id, the calls in the event's content that are run only if the user agrees, and earlier
            calls whose tools ask for that. A function response of the user decides about such a call, and is not its result.
        requested_inputs: by id, the calls of the agent, in this event or earlier, that wait for the user's answer to a question.
            A function response of the user is the answer, and not the result of the call.
        compaction: the summary of earlier events, of an event that has nothing else; None for every other event.
    """

    state_delta: StateDelta = {}
    artifact_delta: dict[str, int] = {}
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    skip_summarization: bool | None = None
    rewind_before_invocation_id: str | None = None
    agent_state: Progress | None = None
    route: Route | list[Route] | None = None
    requested_tool_confirmations: dict[str, JsonObject] = {}
    requested_inputs: dict[str, RequestedInput] = {}
    compaction: EventCompaction | None = None


class Usage(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Tokens of one model response, under google-genai's names."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    total_token_count: int | None = None


class _Unchanging(dict[str, Any]):
    """An empty dictionary that stays empty: all events without actions of their own share one."""

    def _refuse(self, *_: object, **__: object) -> Never:
        raise TypeError(
            "an event that was made without actions shares them with all such events: give it some, for instance "
            "Event(actions=EventActions(state_delta={…}))"
        )

    __setitem__ = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[()]]:
        # A copy is shared by nothing.
        return dict, ()


_NOTHING = _Unchanging()

NO_ACTIONS = EventActions(
    state_delta=_NOTHING, artifact_delta=_NOTHING, requested_tool_confirmations=_NOTHING, requested_inputs=_NOTHING
)
"""The actions of an event that was made without any."""


class Event(Answer, Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """One entry of a session's log.

    Attributes:
        id: unique in the session; the author gives it, so that an append can be repeated safely.
        invocation_id: the turn that the event belongs to.
        seq: the position in the session's log, from 1 and without gaps; 0 until the Session actor has stored the event.
        author: the name of the agent, or `user`.
        timestamp: seconds since the epoch, by the author's clock.
        branch: dotted path of the parallel branch of the author; None outside of any.
        content: what was said, called or returned; None for an event that only acts.
        partial: True for a part of a streamed response, which is delivered but never stored.
        turn_complete: a field of ADK's events, which raygrove does not set.
        finish_reason: why the model stopped, as its service sent it.
        error_code: class name of the exception that ended the agent's run, while `content` is None; or the error code of a
            model's response.
        error_message: the message of that error.
        error_traceback: where users' code raised it, as text: files, lines and code, without values. None when it came from no
            such code, or from the response of a model.
        usage: tokens of the model response; None for other events.
        model_version: the model whose response it is, by the name under which it has limits and prices; None for other events.
        duration_s: how long the model's call took, or the tools whose results it has, without agents that were asked as tools;
            None where that was not measured.
        grounding_metadata: what a search of the model's service found for the answer, as the service sent it: a JSON object with
            camelCase keys.
        long_running_tool_ids: ids of the calls in `content` whose responses may come in a later turn.
        custom_metadata: a JSON object of the model, of RunConfig, of a supervisor's decision, or with a request's fingerprint.
        actions: what the event does besides being read.
        flow: what the event says of a flow; None when it belongs to none.
        node_info: the node of a graph that it comes from; None when it comes from none.
        output: what a node gives to the nodes after it, as plain data; None for nothing.
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
    error_traceback: str | None = None
    usage: Usage | None = msgspec.field(default=None, name="usageMetadata")
    model_version: str | None = None
    duration_s: float | None = None
    grounding_metadata: JsonObject | None = None
    long_running_tool_ids: Sequence[str] = ()
    custom_metadata: JsonObject | None = None
    actions: EventActions = NO_ACTIONS
    flow: FlowMark | None = None
    node_info: NodeInfo | None = None
    output: JsonValue = None

    @property
    def text(self) -> str:
        """All texts of the content joined, thoughts left out; "" when there is none."""
        return self.content.text if self.content is not None else ""

    @property
    def usage_metadata(self) -> Usage | None:
        """The same as `usage`, by ADK's name."""
        return self.usage

    @property
    def steers(self) -> bool:
        """True for a message that an agent has read while its turn ran: no turn begins with it, or goes on."""
        return bool(self.reader())

    def reader(self) -> str:
        """The agent that has read it while its turn ran, of a message of the user; else ""."""
        return str((self.custom_metadata or {}).get(READ_BY, "")) if self.author == USER else ""

    def received(self) -> Received:
        """The message as its reader gets it."""
        content, metadata = self.content or Content(), self.custom_metadata or {}
        if SENDER not in metadata:
            return Received(content)
        found = metadata.get(RUN)
        about = found if isinstance(found, dict) else {}
        return Received(content, str(metadata[SENDER]), str(about.get("id", "")), str(about.get("status", "")))

    def function_calls(self) -> Iterator[FunctionCall]:
        """The calls in its content, in order."""
        return self.content.function_calls() if self.content is not None else iter(())

    def function_responses(self) -> Iterator[FunctionResponse]:
        """The responses in its content, in order."""
        return self.content.function_responses() if self.content is not None else iter(())

    def is_final_response(self) -> bool:
        """True when the agent's run ends with this event (semantics.md 5.1)."""
        if self.actions.skip_summarization or self.long_running_tool_ids or self.actions.requested_inputs:
            return True
        if self.actions.compaction is not None:
            return False
        if self.partial:
            return False
        # No generator: this is asked several times of each answer.
        for part in self.content.parts if self.content is not None else ():
            if part.function_call is not None or part.function_response is not None:
                return False
        return True

    def to_json(self) -> str:
        """The event as ADK writes it: camelCase keys, bytes as base64, defaults left out."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Event:
        """The event that `to_json` wrote.

        Raises:
            msgspec.ValidationError: a field is wrong; the message names it.
            msgspec.DecodeError: the text is no JSON.
        """
        return codec.decode_json(text, cls)


_decoder = codec.decoder(Event)


def encode_event(event: Event) -> bytes:
    """The wire form of an event that user code has made, checked so that every reader can decode it.

    Raises:
        NotEncodableError: a field has a value of another type than declared, is nested too deep, or is no JSON value.
    """
    raw = encode(event)
    try:
        # Constructors check no types, and an event that cannot be decoded would break its session for good.
        event = _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotEncodableError(Event.__name__, str(error)) from error
    if not math.isfinite(event.timestamp):
        raise NotEncodableError(Event.__name__, "its timestamp is no time")
    for value in (event.actions.state_delta, event.actions.agent_state, event.custom_metadata):
        if value and (wrong := flaw(value)) is not None:
            raise NotEncodableError(Event.__name__, wrong)
    if event.content is not None and (wrong := content_flaw(event.content)) is not None:
        raise NotEncodableError(Event.__name__, wrong)
    return raw


def decode_event(raw: bytes, seq: int) -> Event:
    """The event in `raw`, with its position in the log, `seq`, filled in."""
    event = _decoder.decode(raw)
    # Nothing else refers to the new object, so setting the field is safe and saves a copy of every event that is read.
    msgspec.structs.force_setattr(event, "seq", seq)
    return event


def new_event_id() -> str:
    """A new id for an event: the hex digits of a UUID that begins with the time in ms, without the object, which costs more.

    Ids that are made at about the same time stand together in the index of a store, of whatever sessions they are: so a commit of
    many sessions changes few pages of it.
    """
    return f"{int(now_s() * 1000):012x}{take_random_digits()}"


def new_invocation_id() -> str:
    """A new id for a turn, in ADK's form."""
    digits = new_event_id()
    return f"e-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class LoopClocks:
    """Says whether there is an event loop in this process that goes by the clock of a test, and so has a method `epoch_s`.

    Asyncio asks the kernel for the process each time that it is asked for the running loop, which takes as long as all the rest.
    """

    are_there = False


def now_s() -> float:
    """The time in seconds since the epoch, as events have it: of the running event loop, if that goes by the clock of a test."""
    if not LoopClocks.are_there:
        return time.time()
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return time.time()
    of_loop: Callable[[], float] | None = getattr(loop, "epoch_s", None)
    return of_loop() if of_loop is not None else time.time()


IDS_AT_ONCE = 256
"""Ids whose random digits are made together: to ask the kernel for each takes longer than all else of an id."""

_BYTES = 10
"""A UUID without its time."""

_VERSION_7 = bytes(0x70 | byte & 0x0F for byte in range(256))
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
"""What becomes of a random byte that holds the version of a UUID, or its variant, besides."""

_left: list[str] = []
"""What is made and not taken, for all threads: to take the last of a list is one step of the interpreter."""


def take_random_digits() -> str:
    """The 20 hex digits after the time of a UUID of version 7. No two calls get the same, in no thread and no fork."""
    try:
        return _left.pop()
    except IndexError:
        made = _made()
        digits = made.pop()
        _left.extend(made)
        return digits


def _made() -> list[str]:
    random = bytearray(os.urandom(_BYTES * IDS_AT_ONCE))
    random[0::_BYTES] = random[0::_BYTES].translate(_VERSION_7)
    random[2::_BYTES] = random[2::_BYTES].translate(_VARIANT)
    digits = random.hex()
    return [digits[at : at + 2 * _BYTES] for at in range(0, len(digits), 2 * _BYTES)]


def drop_random_digits() -> None:
    """Make new ones for the next id. A fork does, since its parent has the same."""
    _left.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=drop_random_digits)
