"""Runs of agents inside a turn, and how they end.

The Runner sends Invoke, StopRun and NotifyRuns to agents; agents send RunChild, StopBranch and TakeLlmCall to the Runner. The
outcomes of turns are stored: the names of these classes are tags in every database and never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from actors.messages import codec, graph
from actors.messages.config import DEFAULT_RUN_CONFIG, RunConfig
from actors.messages.flow import FlowMark, Work
from actors.messages.graph import NodeTask
from actors.messages.json_types import JsonValue, Progress
from actors.messages.protocol.base import Ack, Message, Note, Request, Route, StoredEvent, TurnRef
from actors.messages.shown import Shown


class Outcome(Shown, Message, frozen=True, kw_only=True):
    """How an agent's run ended.

    Attributes:
        agent: the agent whose run it was.
        llm_calls: model calls it made out of the allowance that came with the Invoke.
        escalated: some event of the run, or of a run below it, had `actions.escalate`.
        state_seq: the seq of the newest change of the session's state that the run knows of; 0: of none.
        mark: of a round of a flow: what its events say of the flow, without results.
    """

    unshown: ClassVar[frozenset[str]] = frozenset({"llm_calls", "escalated", "state_seq", "mark", "closed"})

    agent: str = ""
    llm_calls: int = 0
    escalated: bool = False
    state_seq: int = 0
    mark: FlowMark | None = None


class Finished(Outcome, frozen=True, kw_only=True):
    """The run came to its end.

    Attributes:
        closed: its last event has closed the turn, too.
        output: of a graph, or an agent that is a node of one: what it gives to the nodes after it; None for nothing.
        routes: of a node that calls a function: what it has said.
    """

    closed: bool = False
    output: JsonValue = None
    routes: tuple[graph.Route, ...] = ()


class Transfer(Outcome, frozen=True, kw_only=True):
    """The run transferred the turn to the agent `to`, with the event at `seq`.

    Attributes:
        events: all that the run has stored, the transfer last, if that is little and leaves the state as it was; else nothing.
        call_ids: the run's long-running calls that wait for function responses: the turn is paused when the agent `to` is done.
    """

    unshown: ClassVar[frozenset[str]] = Outcome.unshown | {"events", "call_ids"}

    to: str
    seq: int = 0
    events: Sequence[StoredEvent] = ()
    call_ids: tuple[str, ...] = ()


class Paused(Outcome, frozen=True, kw_only=True):
    """The run waits for function responses to long-running calls, `call_ids`.

    A run that works on a task with the user waits for the user's next words as for the response to a call: see `words_call`.
    """

    call_ids: tuple[str, ...] = ()


class Failed(Outcome, frozen=True, kw_only=True):
    """The run ended with an error, whose event is in the log.

    Attributes:
        error_code: class name of the exception.
        error_message: its text.
        error_args: its arguments when it is one of this project's own errors and they can be encoded, else None.
        error_traceback: where users' code raised it, see Event; "" when it came from no such code.
    """

    error_code: str
    error_message: str = ""
    error_args: Sequence[JsonValue] | None = None
    error_traceback: str = ""


class Cancelled(Outcome, frozen=True, kw_only=True):
    """The turn was cancelled: by its timeout of `timeout_s` seconds, or on request when that is None."""

    timeout_s: float | None = None


AnyOutcome = Finished | Transfer | Paused | Failed | Cancelled


_WORDS = "words:"


def words_call(path: str) -> str:
    """The id of a wait for the user's next words, among the calls of Paused. `path`: of the run that waits."""
    return _WORDS + path


def path_of_words(call_id: str) -> str:
    """The path of the run that waits for the user's next words; "" for the id of a function call."""
    return call_id.removeprefix(_WORDS) if call_id.startswith(_WORDS) else ""


def for_users(outcome: AnyOutcome) -> AnyOutcome:
    """The outcome of a turn without what only actors use: its internal fields are at their defaults, and it has only calls."""
    if isinstance(outcome, Paused) and any(map(path_of_words, outcome.call_ids)):
        calls = tuple(call_id for call_id in outcome.call_ids if not path_of_words(call_id))
        outcome = msgspec.structs.replace(outcome, call_ids=calls)
    is_closed = isinstance(outcome, Finished) and outcome.closed
    if not (outcome.llm_calls or outcome.escalated or outcome.state_seq or outcome.mark is not None or is_closed):
        return outcome
    internal = {"llm_calls": 0, "escalated": False, "state_seq": 0, "mark": None}
    return msgspec.structs.replace(outcome, **internal, **({"closed": False} if isinstance(outcome, Finished) else {}))


_outcomes: msgspec.msgpack.Decoder[AnyOutcome] = codec.decoder(AnyOutcome)


def decode_outcome(raw: bytes) -> AnyOutcome:
    """Decode a stored outcome. Raises msgspec.DecodeError."""
    return _outcomes.decode(raw)


class Invoke(Request[AnyOutcome], frozen=True, kw_only=True):
    """Run an agent in a turn. The reply is the run's Outcome; with `tells_begun` an Ack comes before.

    Attributes:
        turn: the turn, its epoch, and the number of this run.
        closes: the agent selected for the turn, when the end of this run is the end of the turn: then the run's last event may
            carry that end. "" when another run waits for this one.
        branch: the parallel branch it runs on.
        as_tool: it is asked as a tool, so it may transfer to its own children only.
        user_event: what the agent is asked: the user's event of this turn, or the request of the agent that has it as a tool.
        fresh: the log ends with `user_event` and `after`, and `state` is current.
        before: the events before `user_event` that the agent may have missed; not all that it has, if these are many.
        after: with `fresh`, all events after `user_event`: those of the runs that have transferred the turn.
        state: the session's state, all scopes, encoded; empty unless `fresh`, or known to the run that asks for this one.
        state_seq: the seq of the newest change of state that a run of this turn has reported to the Runner; with `state` of a run
            that asks, that up to which all changes are in it.
        config: the options of the turn.
        llm_calls: model calls that this run may make by itself.
        asks_for_more: it asks the Runner for each further one; else it makes none.
        resume_at: where the run goes on after a pause: see Context.
        progress: what the agent stored last, if the run goes on after a pause or a loss; `noted_seq` is the seq of that event.
        resume: the run was begun before and was lost: it goes on from what the log has of it after `since`.
        since: the seq after which the run's own events stand, with `resume`.
        retried_seq: failures up to this seq do not count, since the turn was retried after them; with `resume`.
        work: the run is this round of a flow.
        node: the run is this run of a node of a graph.
        notes: of the supervisors above, as far as these do not know yet that they are stored: they go with all that the run
            stores, until one of its appends is acknowledged.
        traceparent: the run's span, under which the process tells what it does; "" without telemetry.
        tells_begun: the Runner, for which others wait, wants to know when the run is under way.
        first_seq: the seq of the message with which the turn began, where that is not `user_event`; 0: nothing says it.
        has_messages: see NotifyRuns.
        place: of a run of user code, tells it from other runs of the agent in the turn; the same when it is repeated.
    """

    turn: TurnRef
    agent: str
    closes: str = ""
    branch: str | None = None
    as_tool: bool = False
    user_event: StoredEvent
    fresh: bool = False
    before: Sequence[StoredEvent] = ()
    after: Sequence[StoredEvent] = ()
    state: bytes = b""
    state_seq: int = 0
    config: RunConfig = DEFAULT_RUN_CONFIG
    llm_calls: int = 0
    asks_for_more: bool = True
    resume_at: tuple[str, ...] = ()
    progress: Progress = msgspec.field(default_factory=dict)
    noted_seq: int = 0
    resume: bool = False
    since: int = 0
    retried_seq: int = 0
    work: Work | None = None
    node: NodeTask | None = None
    notes: Sequence[Note] = ()
    traceparent: str = ""
    tells_begun: bool = False
    first_seq: int = 0
    has_messages: bool = False
    place: str = ""


class StopRun(Request[Ack], frozen=True, kw_only=True):
    """Stop runs of a turn in this actor, by their numbers in the epoch of `turn`."""

    turn: TurnRef
    runs: tuple[int, ...]


class NotifyRuns(Request[Ack], frozen=True, kw_only=True):
    """Tell runs of a turn in this actor that messages may wait for them. `runs`: their numbers in the epoch of `turn`."""

    turn: TurnRef
    runs: tuple[int, ...]


class RunChild(Request[AnyOutcome], frozen=True, kw_only=True):
    """Run a child of an agent, or an agent that it has as a tool. The reply is that run's Outcome.

    Attributes:
        turn: names the run that asks.
        user_event: what the child is asked, already stored; None: the message that opened the turn.
        resume, since: see Invoke.
        work: the round of a flow that the child does; it may stand anywhere in the tree.
        node: the run of a node of a graph that the child does.
        notes: see Invoke. The last one says that the child begins, if that is noted.
        state, state_seq: the session's state and the place up to which it has all changes, where the asking run knows them.
        traceparent: of the tool call that asks for the run; "" without one.
        place: tells the runs apart that the asking run wants of one child; the same when it asks again after a loss.
    """

    route = Route.SESSION

    turn: TurnRef
    parent: str
    child: str
    branch: str | None = None
    user_event: StoredEvent | None = None
    resume: bool = False
    since: int = 0
    work: Work | None = None
    node: NodeTask | None = None
    notes: Sequence[Note] = ()
    place: str = ""
    traceparent: str = ""
    state: bytes = b""
    state_seq: int = 0


class StopBranch(Request[Ack], frozen=True, kw_only=True):
    """Stop every run on a branch or below it; without a branch, every run that the asking run has asked for.

    Attributes:
        child: without a branch, only what it has asked of this agent.
    """

    route = Route.SESSION

    turn: TurnRef
    branch: str = ""
    child: str = ""


class TakeLlmCall(Request[Ack], frozen=True, kw_only=True):
    """Ask for one model call out of the turn's allowance. Raises LlmCallsLimitExceededError when it is used up."""

    route = Route.SESSION

    turn: TurnRef
    agent: str
