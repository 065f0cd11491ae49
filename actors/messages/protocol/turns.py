"""Opening, resuming and ending turns, and how far a turn is: driver to Runner, and Runner to Session actor."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.config import DEFAULT_RUN_CONFIG, RunConfig
from actors.messages.content import Content
from actors.messages.json_types import JsonObject, Progress, StateDelta
from actors.messages.protocol.base import Ack, Lane, Message, Note, Request, Route, StoredEvent, TurnRef
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.session import ONLY_SHARD, SessionKey, Shard

MESSAGE = "\x1f"
"""Begins the names of messages that wait. No program can give a schedule such a name."""

SENT = "@"
"""Stands in the name of such a message before the agent that gets it."""

NEW = "/new"
"""Ends the name of such a message that no plugin has seen."""


class ScheduledTime(msgspec.Struct, frozen=True, array_like=True):
    """A due time that makes a turn: the turn begins, and the schedule goes on to its next due time, in one step.

    Attributes:
        name, id: the schedule, of the user to whom the turn's session belongs.
        due_s: the due time, in seconds since the epoch.
        next_s: the one after it; None: it was the last.
    """

    name: str
    id: str
    due_s: int
    next_s: int | None = None

    @property
    def is_message(self) -> bool:
        """It is a message that waits to be read by a turn: such a message is kept as a schedule that is due at once."""
        return self.name.startswith(MESSAGE)

    @property
    def is_sent(self) -> bool:
        """It is a message of an agent to another."""
        return self.is_message and SENT in self.name

    @property
    def is_new(self) -> bool:
        """No plugin has seen the message, and nothing of it was saved."""
        return not self.is_message or self.name.endswith(NEW)


class TransferRecord(msgspec.Struct, frozen=True, array_like=True):
    """A transfer in the log: the event at `seq`, on a branch, by `author`, to the agent `to`."""

    seq: int
    branch: str | None
    author: str
    to: str


class WaitingCall(msgspec.Struct, frozen=True, array_like=True):
    """A call of an agent, on a branch, that waits for a response of the user."""

    call_id: str
    agent: str
    branch: str | None


class RunLosses(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """How often a run was lost since its agent last stored an event. An event of the agent ends the count.

    Attributes:
        times: losses of its process, alone or with others.
        alone: attempts in a process of its own. Each is stored before it begins, so a loss of all processes counts, too.
        own: of those losses, how many were of a process of its own, and of nothing else that is known.
        seq: the newest position of the log when one of these was counted last.
        begun_s: when the last attempt alone was stored, in Unix seconds.
        with_runner: the last loss was that of the Runner, which takes all its agents' processes with it.
        ran_code: code of the program is known to have run in the process, such as that of a custom agent.
    """

    times: int = 0
    alone: int = 0
    own: int = 0
    seq: int = 0
    begun_s: float = 0.0
    with_runner: bool = False
    ran_code: bool = False


class TurnProgress(Message, frozen=True, kw_only=True):
    """What the log has of a turn that goes on after a pause or a loss.

    Attributes:
        first_seq: the seq of the user's event that began the turn.
        opened_seq: the seq of the user's event that opened it last; later than `first_seq` after a pause.
        head_seq: the seq of its newest event.
        callers: the agents whose open calls the last user's event answers.
        agent_states: what each agent stored last as `actions.agent_state`, with the seq of that event; by `branches.state_key`,
            since an agent that is a tool may run for several calls.
        transfers: its transfers, in order.
        waiting: its calls that wait for the user, apart from those of flows.
        model_calls: by agent, how many model calls the log has since the message that opened it last, summaries among them; tool
            results do not count.
        losses: of runs, by `branches.state_key`, their losses; by "" those of the Runner since the newest event.
        under_way: by `branches.state_key`, the functions whose calls have no response and wait for no user.
        deadline_s: when the turn is cancelled, in Unix seconds, since its RunConfig has a timeout; 0: never.
        retried_seq: failures up to this seq do not count: the turn was retried after them.
        config: its options; a message that continues it keeps their budgets.
    """

    first_seq: int = 0
    opened_seq: int = 0
    head_seq: int = 0
    callers: tuple[str, ...] = ()
    agent_states: dict[str, tuple[int, Progress]] = msgspec.field(default_factory=dict)
    transfers: tuple[TransferRecord, ...] = ()
    waiting: tuple[WaitingCall, ...] = ()
    model_calls: dict[str, int] = msgspec.field(default_factory=dict)
    losses: dict[str, RunLosses] = msgspec.field(default_factory=dict)
    under_way: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    deadline_s: float = 0.0
    retried_seq: int = 0
    config: RunConfig | None = None


class TurnStarted(Message, frozen=True, kw_only=True):
    """The turn is open, or was already.

    Attributes:
        agent: the agent selected for it; "" when that is not known.
        attached: the turn was there already; its events are delivered from the first.
        seq: the position of the user's event, if it is the one that was asked with; else 0.
        message: the id of the user's event, if that waits for an agent of the turn to read it; "": it does not. Nothing is
            delivered then, and `seq` is that of the newest event.
    """

    invocation_id: str
    agent: str
    attached: bool = False
    seq: int = 0
    message: str = ""


class StartTurn(Request[TurnStarted], frozen=True, kw_only=True):
    """Run a turn. The reply is TurnStarted.

    Attributes:
        repeatable: a turn of this id may be there already and is joined then: the user chose the id, or the request is a retry.
        sent_s: when it was sent to a Runner that was lost before its reply, and may have accepted it, in Unix seconds; else 0.
        event_id: the id for the user's event, the same in a retry; "" leaves it to the Runner.
        only_waiting: the calls that `content` answers have to wait for it when the turn goes on, or the request is refused.
        subscriber: follows the turn from its opening on, and polls in the store with the number `store`; "": no subscriber does.
        fingerprint: of the whole request, as the user's event keeps it; no turn that began with another one is joined. "": any.
        flow: the name of the definition of the flow that the turn carries out; "": an agent is selected for it.
        traceparent: the span of the caller, as the header of that name has it; "" without one.
        due: the time of a schedule that makes this turn; None: a driver asks for it.
    """

    route = Route.SESSION

    key: SessionKey
    invocation_id: str
    repeatable: bool = False
    sent_s: float = 0.0
    event_id: str = ""
    content: Content
    config: RunConfig = DEFAULT_RUN_CONFIG
    state_delta: StateDelta = msgspec.field(default_factory=dict)
    auto_create: bool = False
    only_waiting: bool = False
    subscriber: str = ""
    store: int = 0
    fingerprint: str = ""
    flow: str = ""
    traceparent: str = ""
    due: ScheduledTime | None = None


class RecoverTurns(Request[Ack], frozen=True, kw_only=True):
    """Resume the turns that were open. A process that takes the place of a lost Runner sends it to its own.

    Attributes:
        term: of the Runner from now on: see AnnounceRunner. 0: as it was built.
    """

    term: int = 0


class RecoverTurn(Request[Ack], frozen=True, kw_only=True):
    """Resume a turn that is open in the log, unless the Runner runs it already."""

    route = Route.SESSION

    key: SessionKey
    invocation_id: str


class NotLeader(Message, frozen=True, kw_only=True):
    """The Runner that asked is not the one that announced itself last. If it lives, it does so, then asks again.

    Attributes:
        number: how many have announced themselves in its place so far.
        term: of the last one. A Runner with an older term was replaced while it lived, and ends.
    """

    number: int
    term: int = 0


class TurnResumed(Message, frozen=True, kw_only=True):
    """The turn is open and belongs to the Runner that asked; older epochs write nothing more.

    Attributes:
        invocation_id: the turn.
        epoch: stands in everything that is written for the turn.
        seq: the position of the user's event that opened the turn last. `event`: that event, encoded.
        config: the options with which the turn was opened.
        caller: the agent that made the first call which the user's event answers, or that waited for it; "" when it answers none.
        generation: names the log, as in TurnBegun.
        authors: the log's agents before the event, the most recent first, as far as they decide which agent is selected.
        progress: how far the turn is.
        traceparent: the one with which the turn began.
        version: of the tree, with which the turn began, if the deployment has it; else the one that it goes on with.
    """

    invocation_id: str = ""
    epoch: int
    seq: int
    event: bytes
    config: RunConfig = DEFAULT_RUN_CONFIG
    caller: str = ""
    generation: str
    authors: tuple[str, ...] = ()
    progress: TurnProgress
    traceparent: str = ""
    version: str = ""


ResumeTurnReply = TurnResumed | Ack | NotLeader
"""Ack when there is nothing to resume: the Runner runs the turn already, or it has ended, or is about to, or is not known."""


class AlreadyRunning(Message, frozen=True, kw_only=True):
    """The Runner that asked runs the turn, or is about to, and is the one that stops it."""


class CancelTurn(Request[Ack | AlreadyRunning | NotLeader], frozen=True, kw_only=True):
    """Stop a turn, wherever it is: the Runner stops a running one, the Session actor one that waits, is lost, or is paused.

    A turn that has ended stays as it is. The Runner replies with Ack; the Session actor with Ack when the turn is open no more,
    AlreadyRunning when its Runner has to stop it, or NotLeader.

    Attributes:
        runner: of a Runner that asks the Session actor: its id.
        begins: that Runner opens, resumes or ends the turn just now.
    """

    route = Route.SESSION
    lane = Lane.GO_ON

    key: SessionKey
    invocation_id: str
    runner: str = ""
    begins: bool = False


class TurnFound(Message, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        authors: the log's agents, the most recent first, as far as they decide which agent is selected.
        caller: the agent that made the first of the calls, or waits for the user's words; "" when no agent waits.
        invocation_id: the turn in which it waits, or that has these words; "" when there is none.
        is_there: the turn asked for is open, waits in the queue, or has ended; or the words are in the log.
        agent: the agent that was selected for it, if that is known.
        seq: the position of the words, if they are in the log.
        questions: the arguments of those calls that nodes of a graph have made to ask the user, by their ids.
    """

    authors: tuple[str, ...]
    caller: str = ""
    invocation_id: str = ""
    is_there: bool = False
    agent: str = ""
    seq: int = 0
    questions: JsonObject = msgspec.field(default_factory=dict)


class FindTurn(Request[TurnFound], frozen=True, kw_only=True):
    """Ask which agents could take a message, before anything is stored. The reply is TurnFound.

    Attributes:
        call_ids: the ids of the message's function responses.
        invocation_id: a turn that may be there already; "": do not look for one.
        fingerprint: see StartTurn.
        auto_create: the session may still have to be created.
        may_answer_task: see OpenTurn.
        event_id: of the message, which may be in the log already as the answer to a task; "": do not look for it.
        wants_questions: the calls may be questions of nodes of a graph.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    call_ids: tuple[str, ...] = ()
    invocation_id: str = ""
    fingerprint: str = ""
    auto_create: bool = False
    may_answer_task: bool = False
    event_id: str = ""
    wants_questions: bool = False


class ResumeRequired(Message, frozen=True, kw_only=True):
    """Another turn is open that this Runner is not known to run. Resume it, then ask again."""

    invocation_id: str


class CancelRequired(Message, frozen=True, kw_only=True):
    """Another turn is open, which the new one interrupts. Cancel it, and meanwhile ask again with it as `interrupting`."""

    invocation_id: str


class TurnJoined(Message, frozen=True, kw_only=True):
    """The turn was there already; the subscriber follows it from its first event on.

    Attributes:
        invocation_id: see TurnBegun.
        seq: the position of the user's event, if it is the one that was asked with; else 0.
        agent: the agent that was selected for the turn, once it has ended or was paused; "" before.
        is_lost: the turn is open, but this Runner is not known to run it: it has to be resumed.
    """

    invocation_id: str = ""
    seq: int = 0
    agent: str = ""
    is_lost: bool = False


class TurnBegun(Message, frozen=True, kw_only=True):
    """The user's event is stored, and the turn is to be run.

    Attributes:
        invocation_id: the turn: another one than was asked for if the message answers an agent that works on a task.
        event: the user's event as it answers that agent; b"": it is as it was sent.
        caller: see TurnResumed.
        epoch: stands in everything that is written for the turn.
        seq: the position of the user's event.
        generation: names the log; a rewind changes it, and what was compiled from the log before is void.
        authors: the log's agents, the most recent first, as far as they decide which agent is selected.
        state: the session's state, all scopes, encoded.
        progress: of a turn that continues after a pause; None for a new one.
        traceparent, version: of the caller and of the tree, with which the turn began.
        before: the events before the message that some agent has missed, if they are few.
    """

    invocation_id: str = ""
    event: bytes = b""
    caller: str = ""
    epoch: int
    seq: int
    generation: str
    authors: tuple[str, ...] = ()
    state: bytes = b""
    progress: TurnProgress | None = None
    traceparent: str = ""
    before: Sequence[StoredEvent] = ()
    version: str = ""


class MessageLeft(Message, frozen=True, kw_only=True):
    """The message is stored for the agents of the turn that runs, or that an earlier message is about to begin.

    Attributes:
        invocation_id: that turn.
        after_seq: the position of the newest event of the session.
    """

    invocation_id: str
    after_seq: int


OpenTurnReply = TurnBegun | TurnResumed | TurnJoined | MessageLeft | CancelRequired | ResumeRequired | NotLeader
"""TurnResumed when the turn had begun with this very event, and only the reply was lost."""


class OpenTurn(Request[OpenTurnReply], frozen=True, kw_only=True):
    """Begin a turn, or continue a paused one whose calls or whose task the message answers. The reply is one of OpenTurnReply.

    Attributes:
        repeatable, only_waiting, subscriber, store: see StartTurn.
        event: the user's event, encoded. `answers`: the ids of the calls that it answers.
        may_answer_task: these are plain words. They answer the agent that works on a task with the user, if one waits for them.
        fingerprint: see StartTurn; `event` has it, too.
        runner, term: of the Runner that will run the turn: see AnnounceRunner.
        interrupting: the open turn that this Runner cancels for it; the turn is the next to run then.
        epoch: in which a new turn begins. One more each time the request is sent again: one that comes late is known by it.
        traceparent: see StartTurn. It stays in the record of a turn that begins.
        due: see StartTurn. The schedule goes on in the step that begins the turn.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    invocation_id: str
    repeatable: bool = False
    event: bytes
    answers: tuple[str, ...] = ()
    may_answer_task: bool = False
    only_waiting: bool = False
    state_delta: StateDelta = msgspec.field(default_factory=dict)
    auto_create: bool = False
    config: RunConfig = DEFAULT_RUN_CONFIG
    subscriber: str = ""
    store: int = 0
    fingerprint: str = ""
    runner: str = ""
    term: int = 0
    interrupting: str = ""
    epoch: int = 1
    traceparent: str = ""
    due: ScheduledTime | None = None


class TurnInLine(Message, frozen=True, kw_only=True):
    """The turn waits until those before it have ended: an early reply to OpenTurn."""


class AnnounceRunner(Request[Ack | NotLeader], frozen=True, kw_only=True):
    """A Runner that was started again takes the place of the one before. The reply is Ack or NotLeader.

    Messages of the one before may still be on their way when its successor runs turns already. They do no harm: until it has
    announced itself a Runner opens, resumes and lists nothing, and the dead do not.

    Attributes:
        runner: the id of the Runner: the name of the actor, a slash, and what only this process of it is called.
        shard: the sessions whose turns it runs. Those that others have left open are lost until they are resumed.
        number: of NotLeader. With another number than the newest, someone else has announced itself meanwhile.
        term: of a Runner that has a standby: each that takes the place of another has a later one. 0: it has none.
    """

    route = Route.ACTOR
    lane = Lane.DIRECT

    runner: str
    shard: Shard = ONLY_SHARD
    number: int
    term: int = 0


class ResumeTurn(Request[ResumeTurnReply], frozen=True, kw_only=True):
    """Give an open turn to a Runner, since the Runner that ran it was lost.

    The reply is one of ResumeTurnReply.

    Attributes:
        runner, term: of the Runner: see AnnounceRunner.
        running: names the turn, of a Runner that runs it all the time and only tells a restarted Session actor so.
    """

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey
    invocation_id: str
    runner: str
    term: int = 0
    running: TurnRef | None = None


class AbandonRuns(Request[TurnProgress], frozen=True, kw_only=True):
    """Fence off runs of a turn that were lost, or stopped: they may write no more. The reply is TurnProgress.

    Attributes:
        notes: of supervisors whose runs go on, which the lost runs would have brought along; those that the log lacks are stored.
        run: the `branches.state_key` of the run whose process was lost; "": none was.
        times: how often that run was lost, this time included: see RunLosses.
        ran_code: see RunLosses.
        agent: the agent of a process that no other run of the turn has told of; "" else.
        reason: what is known of why it was lost.
    """

    route = Route.SESSION
    lane = Lane.GO_ON

    turn: TurnRef
    lost: tuple[int, ...]
    notes: Sequence[Note] = ()
    run: str = ""
    times: int = 0
    ran_code: bool = False
    agent: str = ""
    reason: str = ""


class BeginAlone(Request[Ack], frozen=True, kw_only=True):
    """Store that a run begins in a process of its own, before it does. The reply is Ack.

    Attributes:
        run: its `branches.state_key`.
        attempt: counts its attempts alone, from 1. One that is there already is not stored again.
    """

    route = Route.SESSION
    lane = Lane.GO_ON

    turn: TurnRef
    run: str
    attempt: int


class OpenTurnsReply(Message, frozen=True, kw_only=True):
    """The turns that are open and that the asking Runner is not known to run."""

    turns: Sequence[tuple[SessionKey, str]] = ()


class ListOpenTurns(Request[OpenTurnsReply | NotLeader], frozen=True, kw_only=True):
    """A Runner was started again: drop the queued requests of its predecessor, and list the turns of the app that are open.

    The reply is OpenTurnsReply or NotLeader.

    Attributes:
        runner, shard: the id of the new Runner, and the sessions whose turns it runs.
        term: of the Runner: see AnnounceRunner.
    """

    route = Route.ACTOR
    lane = Lane.READ

    app: str
    runner: str
    term: int = 0
    shard: Shard = ONLY_SHARD


class CloseTurn(Request[Ack], frozen=True, kw_only=True):
    """End a turn: its record is stored, its subscribers get the outcome, and the next turn in the queue may begin.

    Attributes:
        agent: the agent that was selected for it.
    """

    route = Route.SESSION
    lane = Lane.GO_ON

    turn: TurnRef
    agent: str
    outcome: AnyOutcome


class ResumeTurns(Request[Ack], frozen=True, kw_only=True):
    """Go on with all turns that are open in the store and do not run: an earlier deployment has left them.

    A program asks a Runner, which does so for the sessions of its shard. The reply is Ack.
    """

    route = Route.ALL
