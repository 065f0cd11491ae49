"""Runs of agents inside a turn.

The Runner sends Invoke, StopRun and NotifyRuns to agents; agents send RunChild, StopBranch and TakeLlmCall to the Runner.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.config import DEFAULT_RUN_CONFIG, RunConfig
from actors.messages.flow import Work
from actors.messages.graph import NodeTask
from actors.messages.json_types import Progress
from actors.messages.protocol.base import Ack, Note, StoredEvent, TurnRef
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.protocol.request import Request, Route


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
