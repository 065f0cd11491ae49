"""Writing to a log and reading what is new in it: agents to Session actor.

Records of model calls are written along: what was asked, of whom, how often, and what came of it. A request shares nearly all of
itself with the one before it. So it is stored in parts, each under a digest of its bytes and once in a session: the instruction,
the tools, the configuration, and each content. `actors.layers.recording` takes requests apart, and puts them together again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.content import Content, Received
from actors.messages.event import Usage
from actors.messages.json_types import StateDelta
from actors.messages.protocol.base import Ack, Lane, Message, Note, Request, Route, StoredEvent, TurnRef
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.session import SessionKey
from actors.messages.shown import Shown


class CallAttempt(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """One try of a model call.

    Attributes:
        model: the model that was asked, by its name.
        endpoint: where its service is, as far as its client tells; "" for a model that has none.
        begun_s: when it began, in seconds since the epoch.
        error: the class of the error with which it ended, and its text; "" if it did not fail.
    """

    model: str
    endpoint: str = ""
    begun_s: float = 0.0
    error: str = ""


class PackedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A request whose parts are named by their digests; b"" stands for none.

    Attributes:
        model, agent: as in LlmRequest.
        instruction: the text of the system instruction.
        config: the rest of the configuration, in which the instruction is None if there is one.
        tools: the declarations.
        output_schema: the schema.
        contents: digests of contents, joined: the last ones by themselves, then those of groups of contents, then those of groups
            of groups, and so on.
    """

    model: str = ""
    agent: str = ""
    instruction: bytes = b""
    config: bytes = b""
    tools: bytes = b""
    output_schema: bytes = b""
    contents: Sequence[bytes] = ()


class PackedPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of requests, encoded, with its digest."""

    digest: bytes
    raw: bytes


class PackedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A model call as it travels and as it is stored. Its fields are those of RecordedCall in `actors.layers.recording.messages`.

    Attributes:
        id: of the event that has the response.
        request: None if it was not recorded: see `omitted`.
    """

    id: str
    agent: str
    begun_s: float
    ended_s: float
    streamed: bool = False
    attempts: Sequence[CallAttempt] = ()
    usage: Usage | None = None
    error: str = ""
    request: PackedRequest | None = None
    omitted: str = ""


class FailedCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A model call that has failed: of which agent, of which model, with which class of error, and how long it took."""

    agent: str
    model: str
    error: str
    took_s: float


class Appended(Message, frozen=True, kw_only=True):
    """The events are on disk, at consecutive positions.

    Attributes:
        first_seq: the position of the first.
        state_seq: the position of the last event before them that changed the session's state.
    """

    first_seq: int
    state_seq: int = 0


class Append(Request[Appended], frozen=True, kw_only=True):
    """Store events of a turn, in this order, all or none.

    Attributes:
        temp: changes of `temp:` state, without the prefix.
        outcome: set when the turn ends with these events: its end is stored with them, and no CloseTurn follows.
        selected: with `outcome`, the agent that was selected for the turn.
        notes: have to stand before the events; those that the log lacks are stored with them.
        calls: records of model calls to be stored with them; there may be no events then.
        parts: of the requests of these calls.
        failed_calls: model calls of the run that have failed since its last event.
    """

    route = Route.SESSION
    lane = Lane.GO_ON

    turn: TurnRef
    events: Sequence[bytes]
    temp: StateDelta = msgspec.field(default_factory=dict)
    outcome: AnyOutcome | None = None
    selected: str = ""
    notes: Sequence[Note] = ()
    calls: Sequence[PackedCall] = ()
    parts: Sequence[PackedPart] = ()
    failed_calls: Sequence[FailedCall] = ()


class TellAgain(Message, frozen=True, kw_only=True):
    """The partials were not delivered: send the whole response so far."""


class TellPartial(Request[Ack | TellAgain], frozen=True, kw_only=True):
    """Deliver partial events of a streamed model response to the turn's subscribers. They are not stored.

    The reply is Ack, or TellAgain when the Session actor does not know those before them, since it was lost in between.

    Attributes:
        answer: the number of the response in the run.
        first: how many partials of the response came before these.
        again: these are all of the response so far, merged.
    """

    route = Route.SESSION
    lane = Lane.READ

    turn: TurnRef
    events: Sequence[bytes]
    answer: int = 0
    first: int = 0
    again: bool = False


class Fetched(Message, frozen=True, kw_only=True):
    """A page of new events, and the state.

    Attributes:
        generation: when it differs from the one in Fetch, the log was rewound, and `events` begin at its start.
        more: there are events after the last one here; ask again.
        state: the session's state, all scopes with the turn's `temp:`, encoded.
        state_seq: the position of the event that changed it last.
    """

    events: Sequence[StoredEvent]
    generation: str
    more: bool = False
    state: bytes = b""
    state_seq: int = 0


class Fetch(Request[Fetched], frozen=True, kw_only=True):
    """Ask for the events of a log after `after_seq`; with `state_only` for the state alone.

    Attributes:
        generation: that of the log which the reader has; "" when it has none.
    """

    route = Route.SESSION
    lane = Lane.READ

    key: SessionKey
    after_seq: int = 0
    generation: str = ""
    state_only: bool = False


class LogPart(Message, frozen=True, kw_only=True):
    """Events in the order asked for. `more`: there are others within the positions."""

    events: Sequence[StoredEvent] = ()
    more: bool = False


class ReadLog(Request[LogPart], frozen=True, kw_only=True):
    """Ask for a part of a session's log. The reply is LogPart.

    Attributes:
        after_seq, before_seq: only events between these positions; None: to the newest.
        limit: at most so many; fewer come when they are large.
        newest_first: begin at the newest.
    """

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    after_seq: int = 0
    before_seq: int | None = None
    limit: int = 100
    newest_first: bool = False


class MessagesRead(Message, frozen=True, kw_only=True):
    """The messages that were read now, the oldest first.

    Attributes:
        more: others wait.
        last_seq: the position of the last one; 0: there is none.
    """

    messages: Sequence[Received] = ()
    more: bool = False
    last_seq: int = 0


class ReadMessages(Request[MessagesRead], frozen=True, kw_only=True):
    """Append the messages to the log that wait for the turn. The reply is MessagesRead.

    Attributes:
        turn: the run that reads them.
        agent: its agent, which their events name.
        branch: it runs on: there stands what other agents have sent to it.
        most: so many at most are read; 0: all.
        notes: see Append.
        again: the reply to such a request was lost: what this has read comes first.
        after_seq: the position of the last message that the run got.
    """

    route = Route.SESSION
    lane = Lane.GO_ON
    is_sent_once = True

    turn: TurnRef
    agent: str
    branch: str | None = None
    again: bool = False
    after_seq: int = 0
    most: int = 0
    notes: Sequence[Note] = ()


class SendMessage(Request[Ack], frozen=True, kw_only=True):
    """Leave a message of an agent for another. The reply is Ack. Sent again, it changes nothing.

    Attributes:
        turn: the run that sends it.
        sender, agent: its agent, and the one that gets it.
        id: of the turn that it begins if it is not read.
    """

    route = Route.SESSION
    lane = Lane.GO_ON

    turn: TurnRef
    sender: str
    agent: str
    id: str
    content: Content
