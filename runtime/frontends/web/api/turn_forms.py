"""What requests about turns say, and what their responses do; and how far the options may go that clients give to turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import msgspec

from actors.layers.graphs.rules.shape import EdgeReason
from actors.layers.listing.messages import PendingCall
from actors.messages.config import MAX_AMOUNT, Budget, OnConcurrentTurn, RunConfig, Streaming
from actors.messages.event import READ_BY, SENDER, Event
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.turn_info import TurnInfo, TurnStateName
from runtime.driver.operation import MAX_NUMBER, Id, Limit, Position, State
from runtime.driver.turns.reports import FlowBoard, SelectionReason
from runtime.frontends.web.call import Call
from runtime.frontends.web.problems import BadRequestError, NotAllowedError, Problem

Number = Annotated[int, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=MAX_AMOUNT)]


class BudgetOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Fields of a Budget. What is left out is as the server has it."""

    tokens: Count | None = None
    money: Amount | None = None
    llm_calls: Count | None = None
    tool_calls: Count | None = None
    seconds: Amount | None = None


class TurnOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Options of a turn: see RunConfig. What is left out is as the server has it; a response that streams has "sse" itself.

    Credentials that are bound to a user may lower the limits of the server, and not raise them.
    """

    streaming: Streaming | None = None
    max_llm_calls: Number | None = None
    max_transfers: Number | None = None
    timeout: float | None = None
    save_input_blobs_as_artifacts: bool | None = None
    on_concurrent_turn: OnConcurrentTurn | None = None
    custom_metadata: JsonObject | None = None
    budget: BudgetOptions | None = None


_OWN_KEYS = (READ_BY, SENDER)
_OWN_PREFIX = "raygrove:"
"""Begins keys of the metadata of messages that no client writes."""


def run_config(call: Call, options: TurnOptions, *, streams: bool) -> RunConfig:
    """The options of a turn.

    Args:
        call: the request.
        options: what its body says.
        streams: partial events are wanted.

    Raises:
        BadRequestError: an option is out of range.
        NotAllowedError: an option goes beyond a limit that the credentials may not raise.
    """
    base = call.served.run_config
    given = {name: value for name, value in msgspec.structs.asdict(options).items() if value is not None}
    own = next((key for key in options.custom_metadata or () if key in _OWN_KEYS or key.startswith(_OWN_PREFIX)), None)
    if own is not None:
        raise BadRequestError(f"customMetadata may have no {own!r}: by that agents and programs know what others have written")
    if streams:
        given["streaming"] = "sse"
    if options.budget is not None:
        given["budget"] = _budget(base.budget, options.budget)
    try:
        config = RunConfig(**{**msgspec.structs.asdict(base), **given})
    except ValueError as error:
        raise BadRequestError(str(error)) from None
    if call.principal.user_id is not None:
        most = _limits(base)
        for name, value in _limits(config).items():
            if value > most[name]:
                raise NotAllowedError(f"config.{name} may be at most {most[name]:g} with these credentials")
    return config


def _budget(base: Budget | None, given: BudgetOptions) -> Budget | None:
    """The budget of the server with what a client gives in its place."""
    fields = {**(msgspec.structs.asdict(base) if base is not None else {}), **_given(given)}
    return Budget(**fields) if fields else None


def _given(fields: BudgetOptions) -> dict[str, float]:
    return {name: value for name, value in msgspec.structs.asdict(fields).items() if value is not None}


def _limits(config: RunConfig) -> dict[str, float]:
    """The limits of a turn by their names in JSON; infinity where there is none."""
    return {
        "maxLlmCalls": config.max_llm_calls if config.max_llm_calls > 0 else math.inf,
        "maxTransfers": config.max_transfers,
        "timeout": config.timeout if config.timeout is not None else math.inf,
        **{
            f"budget.{name}": limit if limit is not None else math.inf
            for name, field in _BUDGET.items()
            for limit in [getattr(config.budget, field, None)]
        },
    }


_BUDGET = {"tokens": "tokens", "money": "money", "llmCalls": "llm_calls", "toolCalls": "tool_calls", "seconds": "seconds"}


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


def check_error_filter(call: Call, error: str | None) -> None:
    """Check whether a client may look for turns with a text in their error. Raises NotAllowedError."""
    if error is not None and not call.principal.is_admin:
        raise NotAllowedError("only administrators see errors of turns, and look for them: leave error out")
