"""What requests about turns say, and what their responses do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from actors.layers.graphs.rules.edge_reason import EdgeReason
from actors.layers.listing.messages import PendingCall
from actors.messages.event import Event
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.turn_info import TurnInfo, TurnStateName
from runtime.driver.inputs import Id, Limit, Position, State
from runtime.driver.reports.flow_board import FlowBoard
from runtime.driver.turns.reasons import SelectionReason
from runtime.frontends.web.api.turn_options import TurnOptions
from runtime.frontends.web.problems import Problem

MAX_WAIT_S = 3600.0
"""How long a request may wait for a turn."""


class NewTurn(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A turn to start.

    Attributes:
        message: a text, or a Content such as `{"role": "user", "parts": [{"text": "hi"}]}`.
        state_delta: changes of session state that come with the message.
        config: options of the turn.
        auto_create_session: create the session if there is none; null leaves it to the server.
    """

    message: str | JsonObject
    state_delta: State | None = None
    config: TurnOptions = TurnOptions()
    auto_create_session: bool | None = None


class NewAnswers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answers to calls of a turn, by the ids of the calls; true or false for those that need confirmation."""

    answers: Annotated[dict[str, JsonValue], msgspec.Meta(min_length=1)]
    config: TurnOptions = TurnOptions()


class TurnResultView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How a turn ended.

    Attributes:
        invocation_id: the turn.
        state: finished, paused, failed or cancelled.
        agent: the agent that was selected for it.
        text: of the newest final response; the output of a graph counts as one, data as JSON.
        output: of the graph with which the turn has ended.
        events: its events, without the user's; none of a turn that failed or was cancelled.
        finish_reason: why the model of the newest final response stopped.
        error_code: why there is no answer, though no agent has failed; its event says it in words.
        pending: the calls at which it waits for a person.
        error: why it failed, or was cancelled.
    """

    invocation_id: str
    state: TurnStateName
    agent: str = ""
    text: str = ""
    output: JsonValue = None
    events: Sequence[Event] = ()
    finish_reason: str = ""
    error_code: str = ""
    pending: Sequence[PendingCall] = ()
    error: Problem | None = None


class TurnView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a turn is, and the calls at which it waits for a person."""

    turn: TurnInfo
    pending: Sequence[PendingCall] = ()


class TurnList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of turns, those in line first, then the one that began last; `next`: the `before` of the next page."""

    turns: Sequence[TurnInfo]
    next: str | None = None


class PendingList(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that wait for a person."""

    calls: Sequence[PendingCall]


AgeS = Annotated[float, msgspec.Meta(gt=0)]
"""A time span in seconds."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class ReasonList(msgspec.Struct, frozen=True, kw_only=True):
    """For each message of the user in a turn, why it went to the agent that got it."""

    reasons: Sequence[SelectionReason]


class EdgeList(msgspec.Struct, frozen=True, kw_only=True):
    """Why edges of graphs were taken in a turn, or were not, in the order in which the nodes before them ended."""

    edges: Sequence[EdgeReason]


class BoardList(msgspec.Struct, frozen=True, kw_only=True):
    """The boards of the flows that a turn has run, in the order in which they began."""

    boards: Sequence[FlowBoard]


class TurnsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which turns.

    Attributes:
        agent: that spoke last, was selected, or failed.
        error: a part of the error, for administrators.
        invocation: the beginning of the turn's id.
        version: of the tree, by which the turn runs or ran.
        since: began at most so many seconds ago, or waits in line.
        older_than: began more than so many seconds ago.
        text: the user or an agent has said this in it.
        failed_tools: a call of a tool has failed in it.
        q: a part of the id of the turn, its session or its user, or of the name of its agent. A page of what fits may be empty,
            and have a `next`.
    """

    state: TurnStateName | None = None
    q: str = ""
    limit: Limit = 100
    before: _Text | None = None
    agent: _Text | None = None
    error: _Text | None = None
    invocation: _Text | None = None
    version: _Text | None = None
    since: AgeS | None = None
    older_than: AgeS | None = None
    text: _Text | None = None
    failed_tools: bool = False


class JoinQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From where on a turn is followed, and with what."""

    after_seq: Position = 0
    partials: bool = True


class WaitQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many seconds to wait for the end."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0


class PartialsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a stream has partial events."""

    partials: bool = True


class RetryQuery(PartialsQuery, frozen=True, forbid_unknown_fields=True):
    """Whether a stream has partial events; and after which event the turn runs again, `from`."""

    from_event: Id | None = msgspec.field(default=None, name="from")
