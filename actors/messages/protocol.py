"""What actors say to each other.

Commands go down (driver -> Runner -> agents), facts go out through the log (agents -> Session actor -> drivers), and a
reply carries an Outcome or a small fact, never an event. Every message is one struct; the tag is the class's name.
Events travel as the bytes that their author encoded, beside the place that the Session actor gave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.flow import FlowMark, Work
from actors.messages.memory import MemoryEntry
from actors.messages.session import WHOLE, SessionKey, Share
from actors.messages.topology import Topology


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Common shape of all messages."""


class TurnRef(msgspec.Struct, frozen=True, array_like=True):
    """One taking-up of one turn, and one run in it. What is written with an older epoch, or by a run given up, is refused.

    Attributes:
        epoch: how often the turn was taken up.
        run: the number of an agent's run in that taking-up; 0: the Runner itself.
    """

    key: SessionKey
    invocation_id: str
    epoch: int
    run: int = 0


class StoredEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event in its wire form, with its place in the log."""

    seq: int
    raw: bytes


# ------------------------------------------------------------------------------------------------------------ outcomes
class Outcome(Message, frozen=True, kw_only=True):
    """How an agent's run ended.

    Attributes:
        agent: the agent whose run it was.
        llm_calls: model calls it made out of the allowance that came with the Invoke.
        escalated: some event of the run, or below it, had `actions.escalate`.
        state_seq: the newest change of the session's state that the run knows of, by the place of its event; 0: of none.
        mark: of a round of a flow: what its events say of the flow, results left out.
    """

    agent: str = ""
    llm_calls: int = 0
    escalated: bool = False
    state_seq: int = 0
    mark: FlowMark | None = None


class Finished(Outcome, frozen=True, kw_only=True):
    """The run came to its end. `closed`: and its last event has closed the turn."""

    closed: bool = False


class Transfer(Outcome, frozen=True, kw_only=True):
    """The run handed the turn over to the agent `to`, with the event at place `seq`."""

    to: str
    seq: int = 0


class Paused(Outcome, frozen=True, kw_only=True):
    """The run waits for the answers to long-running calls."""

    call_ids: tuple[str, ...] = ()


class Failed(Outcome, frozen=True, kw_only=True):
    """The run ended with an error, whose event is in the log.

    Attributes:
        error_code: class name of the exception.
        error_args: its arguments when it is one of this project's own errors, else None.
    """

    error_code: str
    error_message: str = ""
    error_args: Sequence[Any] | None = None


class Cancelled(Outcome, frozen=True, kw_only=True):
    """The turn was cancelled, by somebody or by its timeout of `timeout_s` seconds."""

    timeout_s: float | None = None


AnyOutcome = Finished | Transfer | Paused | Failed | Cancelled

_outcomes: msgspec.msgpack.Decoder[AnyOutcome] = msgspec.msgpack.Decoder(AnyOutcome)


def decode_outcome(raw: bytes) -> AnyOutcome:
    """Read an outcome back."""
    return _outcomes.decode(raw)


# ---------------------------------------------------------------------------------------------------------- small facts
class Done(Message, frozen=True, kw_only=True):
    """The reply of whoever has nothing to tell."""


class Refused(Message, frozen=True, kw_only=True):
    """The reply of an actor that raised: one of this project's errors by its name and arguments."""

    error: str
    args: Sequence[Any] = ()


# --------------------------------------------------------------------------------------------------- driver -> Runner
class StartTurn(Message, frozen=True, kw_only=True):
    """Run a turn. `subscriber` is told of its events.

    Attributes:
        repeatable: a turn of this id may be there already, and is joined then: the caller gave the id, or asks again.
        flow: under which the definition of a flow is found that the turn is to carry out; "": an agent is selected for it.
        event_id: that of the user's event; who asks again asks with the same. "" leaves it to the Runner.
    """

    key: SessionKey
    invocation_id: str
    repeatable: bool = False
    event_id: str = ""
    content: Content
    config: RunConfig = RunConfig()
    state_delta: dict[str, Any] = {}
    auto_create: bool = False
    subscriber: str = ""
    flow: str = ""


class TurnStarted(Message, frozen=True, kw_only=True):
    """The turn is open, or was already: then `attached`, and its events come from the first.

    Attributes:
        seq: the place of the user's event, if it is the one that was asked with.
    """

    invocation_id: str
    agent: str
    attached: bool = False
    seq: int = 0


class TakeOver(Message, frozen=True, kw_only=True):
    """The Runner's process was lost and started again: take up the turns that were open. It says so to itself."""


class CancelTurn(Message, frozen=True, kw_only=True):
    """Stop a turn, wherever it is: the Runner stops one that runs, the Session actor one that waits in line.

    One that has ended is left as it is.
    """

    key: SessionKey
    invocation_id: str


# -------------------------------------------------------------------------------------------------- Runner -> Session
class GetTopology(Message, frozen=True, kw_only=True):
    """Ask for the parent map."""


class TopologyIs(Message, frozen=True, kw_only=True):
    """The parent map."""

    topology: Topology


class FindTurn(Message, frozen=True, kw_only=True):
    """Ask who could take a message, before anything is stored.

    Attributes:
        call_ids: those of its function responses.
        invocation_id: a turn that may be there already; "" does not ask for any.
    """

    key: SessionKey
    call_ids: tuple[str, ...] = ()
    invocation_id: str = ""
    auto_create: bool = False


class TurnFound(Message, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        authors: of the session's events, by recency, as far as they decide who is selected.
        caller, invocation_id: who made the first of the calls, in which invocation; "" without calls.
        is_there: the turn that was asked for runs, waits in line or has ended.
        agent: who was selected for it, as far as it is known.
    """

    authors: tuple[str, ...]
    caller: str = ""
    invocation_id: str = ""
    is_there: bool = False
    agent: str = ""


class OpenTurn(Message, frozen=True, kw_only=True):
    """Begin a turn, or with `answers` go on with a paused one: the user's event is stored and the turn is taken up.

    Attributes:
        event: the user's event, encoded.
        answers: ids of the calls that it answers.
        repeatable: see StartTurn.
        runner: who will run the turn.
        interrupting: the running turn that this Runner is about to cancel for it; it is the next to run then.
    """

    key: SessionKey
    invocation_id: str
    repeatable: bool = False
    event: bytes
    answers: tuple[str, ...] = ()
    state_delta: dict[str, Any] = {}
    auto_create: bool = False
    config: RunConfig = RunConfig()
    subscriber: str = ""
    runner: str = ""
    interrupting: str = ""


class Handover(msgspec.Struct, frozen=True, array_like=True):
    """A transfer in the log: at place `seq`, on a branch, from `author` to the agent `to`."""

    seq: int
    branch: str | None
    author: str
    to: str


class TurnSoFar(Message, frozen=True, kw_only=True):
    """What the log tells of a turn that goes on, after a pause or after a loss.

    Attributes:
        first_seq: the user's event that began it. `opened_seq`: the one that opened it last, later after a pause.
        head_seq: its newest event.
        callers: who asked the questions that the last user's event answers, and that were still open.
        progress: what supervisors noted last, by agent, each with its place.
        handovers: its transfers, in order.
        said: how many events with content each agent has made, calls and answers of the model but no results of tools.
    """

    first_seq: int = 0
    opened_seq: int = 0
    head_seq: int = 0
    callers: tuple[str, ...] = ()
    progress: dict[str, tuple[int, dict[str, Any]]] = {}
    handovers: tuple[Handover, ...] = ()
    said: dict[str, int] = {}


class TurnOpened(Message, frozen=True, kw_only=True):
    """The turn runs.

    Attributes:
        epoch: to be given with everything that is written for it.
        seq: the place of the user's event.
        generation: names the log; another one after a rewind, and what was compiled of the old one is void.
        authors: the log's agents, the most recent first, as far as they decide who is selected.
        state: the session's state, all scopes, encoded.
        so_far: of a turn that goes on; None for a new one.
        taken_up: the turn was open already, and whoever ran it is gone; `event` and `config` tell how it was opened, `caller` who
            made the first call that the user's event answers.
        attached: the turn was there already and is not to be run again.
        interrupted: the turn that runs and has to be cancelled ("interrupt"), while it is asked again; nothing else holds then.
        lost: the turn that is open and that this Runner is not known to run: it has to be taken up first. With `attached` it is
            the turn asked for; otherwise nothing else holds.
    """

    epoch: int = 0
    seq: int = 0
    generation: str = ""
    authors: tuple[str, ...] = ()
    state: bytes = b""
    agent: str = ""
    so_far: TurnSoFar | None = None
    taken_up: bool = False
    event: bytes = b""
    config: RunConfig = RunConfig()
    caller: str = ""
    attached: bool = False
    interrupted: str = ""
    lost: str = ""


class TakeUp(Message, frozen=True, kw_only=True):
    """Go on with a turn whose Runner was lost; the reply is TurnOpened, with the epoch 0 when it has ended.

    Attributes:
        epoch: of a Runner that runs the turn all the time, and only says so to a Session actor that has forgotten it; else 0.
    """

    key: SessionKey
    invocation_id: str
    runner: str
    epoch: int = 0


class PickUp(Message, frozen=True, kw_only=True):
    """Runs of a turn were lost: they may write no more. The reply is TurnSoFar."""

    turn: TurnRef
    lost: tuple[int, ...]


class ListOpenTurns(Message, frozen=True, kw_only=True):
    """A Runner begins anew: what its predecessor had in line is given up, and it is told which turns of the app are open.

    Attributes:
        share: the sessions whose turns it runs.
    """

    app: str
    runner: str
    share: Share = WHOLE


class OpenTurnsAre(Message, frozen=True, kw_only=True):
    """Turns that are open and not known to be run by the Runner that asks."""

    turns: Sequence[tuple[SessionKey, str]] = ()


class CloseTurn(Message, frozen=True, kw_only=True):
    """End a turn: its record is written, its subscribers are told, the next in line may begin.

    Attributes:
        agent: the agent that was selected for it.
    """

    turn: TurnRef
    agent: str
    outcome: AnyOutcome


# ---------------------------------------------------------------------------------------------------- Runner -> agents
class Invoke(Message, frozen=True, kw_only=True):
    """Run an agent in a turn.

    Attributes:
        branch: the parallel branch it runs on.
        user_event: the user's event of this turn.
        fresh: that event is all that is new behind place `user_event.seq - 1`; `state` is current then.
        state_seq: the newest change of state that the Runner has heard of in this turn, by the place of its event.
        llm_calls: model calls that this run may make by itself; None: it has to ask the Runner for each.
        llm_limit: RunConfig.max_llm_calls, for the message of the error.
        closes: the agent selected for the turn, when the end of this run is the end of the turn; then the run's last event may
            carry that end. "" when somebody waits for the run.
        resume_at: see Context. `progress`: what the agent noted last, when it goes on, and `noted_seq` its place.
        resume: the run was begun before, behind place `since`, and was lost: it goes on from what the log has of it.
        work: the run is this round of a flow.
    """

    turn: TurnRef
    agent: str
    closes: str = ""
    branch: str | None = None
    user_event: StoredEvent
    fresh: bool = False
    generation: str = ""
    state: bytes = b""
    state_seq: int = 0
    streaming: bool = False
    llm_calls: int | None = None
    llm_limit: int = 0
    resume_at: tuple[str, ...] = ()
    progress: dict[str, Any] = {}
    noted_seq: int = 0
    resume: bool = False
    since: int = 0
    work: Work | None = None


class StopRun(Message, frozen=True, kw_only=True):
    """Stop runs of one taking-up of a turn in this actor, by their numbers."""

    turn: TurnRef
    runs: tuple[int, ...]


# ------------------------------------------------------------------------------------------------- agent -> Runner
class RunChild(Message, frozen=True, kw_only=True):
    """An agent asks for a run of one below it, or of one that it has as a tool; the reply is that run's Outcome.

    Attributes:
        user_event: what the child is asked, already stored; None: what the turn was opened with.
        resume, since: see Invoke.
        work: the round of a flow that the child, wherever it stands, is to do.
    """

    turn: TurnRef
    parent: str
    child: str
    branch: str | None = None
    user_event: StoredEvent | None = None
    resume: bool = False
    since: int = 0
    work: Work | None = None


class StopBranch(Message, frozen=True, kw_only=True):
    """Whoever began a branch wants every run on it and below stopped; without a branch, all that the run itself has asked for."""

    turn: TurnRef
    branch: str = ""


class TakeLlmCall(Message, frozen=True, kw_only=True):
    """Ask for one model call out of the turn's allowance. Refused when it is used up."""

    turn: TurnRef
    agent: str


# ------------------------------------------------------------------------------------------------- agent -> Session
class Append(Message, frozen=True, kw_only=True):
    """Store events of a turn, in this order, all or none.

    Attributes:
        temp: changes of `temp:` state, without the prefix.
        outcome: set when the turn ends with these events: its end is stored with them, and nobody has to send a CloseTurn.
        selected: the agent selected for a turn that ends so.
    """

    turn: TurnRef
    events: Sequence[bytes]
    temp: dict[str, Any] = {}
    outcome: AnyOutcome | None = None
    selected: str = ""


class Appended(Message, frozen=True, kw_only=True):
    """The events are on disk, side by side.

    Attributes:
        first_seq: the place of the first.
        state_seq: the place of the event before them that changed the session's state last.
    """

    first_seq: int
    state_seq: int = 0


class TellPartial(Message, frozen=True, kw_only=True):
    """Pieces of a streamed answer, for the turn's subscribers; they are not stored."""

    turn: TurnRef
    events: Sequence[bytes]


class Fetch(Message, frozen=True, kw_only=True):
    """Ask for what is new in a log behind `after_seq`; with `state_only` for the state alone."""

    key: SessionKey
    after_seq: int = 0
    generation: str = ""
    state_only: bool = False


class Fetched(Message, frozen=True, kw_only=True):
    """What is new.

    Attributes:
        generation: when it is not what was asked with, `events` begin at the log's start.
        more: there is more behind the last event; ask again.
        state: the session's state, all scopes with the turn's `temp:`, encoded.
        state_seq: the place of the event that changed it last.
    """

    events: Sequence[StoredEvent]
    generation: str
    more: bool = False
    state: bytes = b""
    state_seq: int = 0


# ------------------------------------------------------------------------------------------------- driver -> Session
class Subscribe(Message, frozen=True, kw_only=True):
    """Tell a subscriber of a turn's events behind `after_seq`."""

    subscriber: str
    key: SessionKey
    invocation_id: str
    after_seq: int = 0


class Poll(Message, frozen=True, kw_only=True):
    """Wait for news of all turns that a subscriber follows.

    Attributes:
        ack: the number of the last News that it has got. `mailbox`: see there.
    """

    subscriber: str
    ack: int = 0
    mailbox: str = ""


class TurnNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What happened in one turn since the last News: events and partials in the order in which they came.

    Attributes:
        events: partial events have the place 0.
        outcome: set when the turn has ended; nothing follows.
    """

    key: SessionKey
    invocation_id: str
    events: Sequence[StoredEvent] = ()
    outcome: AnyOutcome | None = None


class News(Message, frozen=True, kw_only=True):
    """News number `number`; `known` is False when the subscriber is not known (any more) and has to subscribe again.

    Attributes:
        mailbox: where they come from. When it is another one than before, what that was to tell is lost, as the Session actor
            was; and the subscriber has to subscribe again, although this one may know it already, by a turn that was begun since.
    """

    number: int = 0
    mailbox: str = ""
    turns: Sequence[TurnNews] = ()
    known: bool = True


class ReadTurn(Message, frozen=True, kw_only=True):
    """Ask for what a turn's agents have said behind `after_seq`, a page of it."""

    key: SessionKey
    invocation_id: str
    after_seq: int = 0


class TurnRead(Message, frozen=True, kw_only=True):
    """A page of a turn.

    Attributes:
        read_to_seq: the log was read to that place.
        more: there is more behind it; ask again.
    """

    events: Sequence[StoredEvent]
    read_to_seq: int
    more: bool = False


class Unsubscribe(Message, frozen=True, kw_only=True):
    """A subscriber goes away."""

    subscriber: str


class CreateSessionRequest(Message, frozen=True, kw_only=True):
    """Create a session with a state, all scopes by prefixed keys."""

    key: SessionKey
    state: dict[str, Any] = {}


class GetSessionRequest(Message, frozen=True, kw_only=True):
    """Read a session: its newest `num_recent_events` events (None: all) not older than `after_timestamp` seconds."""

    key: SessionKey
    num_recent_events: int | None = None
    after_timestamp: float | None = None


class ListSessionsRequest(Message, frozen=True, kw_only=True):
    """List the sessions of a user, or of all users with None."""

    app: str
    user: str | None = None


class DeleteSessionRequest(Message, frozen=True, kw_only=True):
    """Delete a session."""

    key: SessionKey


class AppendEventRequest(Message, frozen=True, kw_only=True):
    """Add an event to a session outside of any turn."""

    key: SessionKey
    event: bytes


class RewindRequest(Message, frozen=True, kw_only=True):
    """See the session as before a turn."""

    key: SessionKey
    invocation_id: str


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One session: its merged state, the events asked for, and when it was last written (seconds since the epoch)."""

    key: SessionKey
    state: dict[str, Any] = {}
    events: Sequence[StoredEvent] = ()
    updated_s: float = 0.0


class SessionIs(Message, frozen=True, kw_only=True):
    """The session asked for, or None."""

    session: SessionInfo | None = None


class SessionsAre(Message, frozen=True, kw_only=True):
    """The sessions asked for, without their events."""

    sessions: Sequence[SessionInfo] = ()


# ----------------------------------------------------------------------------------------- driver and agents -> Session
class RememberSession(Message, frozen=True, kw_only=True):
    """Put what a session says now into memory, in place of what it said before."""

    key: SessionKey


class ForgetSession(Message, frozen=True, kw_only=True):
    """Take a session out of memory. Its log stays."""

    key: SessionKey


class SearchMemory(Message, frozen=True, kw_only=True):
    """Ask what is remembered of a user."""

    app: str
    user: str
    query: str


class MemoriesAre(Message, frozen=True, kw_only=True):
    """What was found, the best first."""

    entries: Sequence[MemoryEntry] = ()


# ------------------------------------------------------------------------------------------------- driver -> anybody
class AcquirePermit(Message, frozen=True, kw_only=True):
    """Wait until a call of a limited model may begin, or be repeated.

    Attributes:
        permit: what the call is known by, made by whoever makes it.
        holder: the process that makes it.
        session: whose call it is: sessions have their turns one after the other.
        attempt: how many attempts have failed; 0 when it begins.
        status, advised_s: how the last has failed, see `actors.rules.permits.Trouble`.
    """

    permit: str
    holder: str
    model: str
    session: SessionKey
    attempt: int = 0
    status: int | None = None
    advised_s: float | None = None


class PermitIs(Message, frozen=True):
    """Whether a call may be made."""

    granted: bool


class ReleasePermit(Message, frozen=True, kw_only=True):
    """A call is over, after so many tokens; or nobody waits for it any more. `answered`: the service has answered it."""

    permit: str
    tokens: int = 0
    answered: bool = False


class RenewPermits(Message, frozen=True, kw_only=True):
    """A process lives. `held`: its calls that are under way, by permit, each with its model."""

    holder: str
    held: dict[str, str]


class GetStatistics(Message, frozen=True, kw_only=True):
    """Ask an actor what it has done."""


class Statistics(Message, frozen=True, kw_only=True):
    """What an actor has done since it lives.

    Attributes:
        actor: its name; on Ray the one under which `ray.get_actor` finds it, of an agent that of the process in which it lives.
        agent: the agent whose actor it is, "" for the others. Replicas but the first are `agent/1`, `agent/2` …
        pid: its process; 0: these are the sums of several actors.
        counts: figures by name.
        agents: on the Runner, what every live agent tells.
        models: on the actor that limits models, figures by name for each of them.
        parts: what each of the several actors tells.
        spare_pids: on the Runner, the processes that stand ready for agents.
    """

    actor: str
    agent: str = ""
    pid: int
    counts: dict[str, int] = {}
    agents: Sequence[Statistics] = ()
    models: dict[str, dict[str, int]] = {}
    parts: Sequence[Statistics] = ()
    spare_pids: Sequence[int] = ()


class Stop(Message, frozen=True, kw_only=True):
    """Finish what is under way, let go of everything, take nothing more."""


AnyMessage = (
    Finished
    | Transfer
    | Paused
    | Failed
    | Cancelled
    | Done
    | Refused
    | StartTurn
    | TurnStarted
    | CancelTurn
    | GetTopology
    | TopologyIs
    | FindTurn
    | TurnFound
    | OpenTurn
    | TurnOpened
    | TakeUp
    | PickUp
    | TurnSoFar
    | ListOpenTurns
    | OpenTurnsAre
    | TakeOver
    | CloseTurn
    | Invoke
    | StopRun
    | RunChild
    | StopBranch
    | TakeLlmCall
    | Append
    | Appended
    | TellPartial
    | Fetch
    | Fetched
    | Subscribe
    | Poll
    | News
    | ReadTurn
    | TurnRead
    | Unsubscribe
    | CreateSessionRequest
    | GetSessionRequest
    | ListSessionsRequest
    | DeleteSessionRequest
    | AppendEventRequest
    | RewindRequest
    | SessionIs
    | SessionsAre
    | RememberSession
    | ForgetSession
    | SearchMemory
    | MemoriesAre
    | AcquirePermit
    | PermitIs
    | ReleasePermit
    | RenewPermits
    | GetStatistics
    | Statistics
    | Stop
)
