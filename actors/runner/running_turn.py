"""A turn that runs in this Runner, and the runs of agents in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Protocol

import msgspec

from actors.interfaces.transport import Link
from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.event import Event, now_s
from actors.messages.graph import NodeTask
from actors.messages.json_types import Progress
from actors.messages.protocol import AnyOutcome, Note, StoredEvent
from actors.messages.session import TurnKey
from actors.rules.routing import resumption
from actors.rules.routing.branches import state_key, tool_root
from actors.rules.routing.turn_life import LAUNCHED, Happening, TurnLife


class Run(msgspec.Struct, eq=False):
    """One run of one agent by one actor.

    Attributes:
        branch: the parallel branch it runs on.
        user_event: what the agent is asked.
        parent: the run that asked for it; None: the Runner itself.
        asked: the agent that `parent` has asked for: this one, or one that has transferred to it; "" without a parent.
        place, traceparent, node, state, state_seq: see RunChild. A run that is repeated reads the state itself.
        before: the run that has transferred to this one; None: it is the first for what was asked.
        transfer_seq: the seq of the transfer by which the agent got the floor; None: it had it from the beginning.
        notes: see RunChild.
        span_id: of its span, once that is known.
        number: names the run in everything that it writes; 0 until it has begun.
        begun_s: when it began, in seconds since the epoch; 0 until then.
        link: the link to its actor, once that lives.
        stopped: there while the run is being stopped, and set when it can write nothing more.
    """

    agent: str
    branch: str | None
    user_event: StoredEvent
    parent: Run | None
    transfer_seq: int | None = None
    notes: Sequence[Note] = ()
    asked: str = ""
    place: str = ""
    traceparent: str = ""
    before: Run | None = None
    node: NodeTask | None = None
    state: bytes = b""
    state_seq: int = 0
    span_id: str = ""
    number: int = 0
    begun_s: float = 0.0
    link: Link | None = None
    stopped: asyncio.Event | None = None

    @property
    def node_path(self) -> str:
        """The path of the run of the node that it is, or is part of; "" for any other run."""
        return self.node.path if self.node is not None else ""

    @property
    def key(self) -> str:
        """Names it in the log, whichever actor does it: see `branches.state_key`."""
        return state_key(self.agent, self.branch, self.node_path)

    @property
    def is_tool(self) -> bool:
        """True when `parent` has asked for this agent itself, as a tool or as a node of a graph."""
        if self.node is not None:
            return self.before is None and self.asked in ("", self.agent)
        return self.parent is not None and self.asked == self.agent and tool_root(self.branch) != tool_root(self.parent.branch)

    def transferred(self, to: str, seq: int) -> Run:
        """The run of the agent that this one has transferred to, with the event at `seq`."""
        return Run(
            to,
            self.branch,
            self.user_event,
            self.parent,
            seq,
            asked=self.asked,
            traceparent=self.traceparent,
            before=self,
            node=self.node,
        )

    def repeated(self) -> Run:
        """The same run by another actor."""
        return msgspec.structs.replace(self, state=b"", state_seq=0, span_id="", number=0, begun_s=0.0, link=None, stopped=None)

    @property
    def path(self) -> str:
        """Tells it from other runs of the turn, whichever actor does it: its places among what was asked for, from the top."""
        above = f"{self.parent.path}/" if self.parent is not None else ""
        return f"{above}{self.agent}:{self.place}:{self.transfer_seq or ''}"

    def is_below(self, other: Run) -> bool:
        """True when it is the other one, or was asked for by that one or by a run below it."""
        return self is other or (self.parent is not None and self.parent.is_below(other))

    def serves(self, parent: Run, asked: str) -> bool:
        """True when it is what `parent` has asked for by that name, or is below that."""
        if self.parent is parent:
            return self.asked == asked
        return self.parent is not None and self.parent.serves(parent, asked)


Concerns = Callable[[Run], bool]
"""Chooses runs of a turn."""


class Runs(msgspec.Struct, eq=False):
    """The runs of a turn that have begun and not ended, by number, and the tasks in which runs wait for others."""

    _by_number: dict[int, Run] = {}
    _last_number: int = 0
    _waiting: dict[asyncio.Task[AnyOutcome], Run] | None = None

    def begin_run(self, run: Run) -> None:
        """Number a run that begins."""
        number = self._last_number = self._last_number + 1
        run.number, run.begun_s = number, now_s()
        self._by_number[number] = run

    def begin_stopping(self, runs: Iterable[Run]) -> None:
        """From now on these runs get no reply to what they ask for, until they have ended."""
        for run in runs:
            run.stopped = run.stopped or asyncio.Event()

    def end_run(self, run: Run) -> None:
        """Drop a run that has ended or is abandoned."""
        self._by_number.pop(run.number, None)
        if run.stopped is not None:
            run.stopped.set()

    def end_runs(self, runs: Iterable[Run]) -> None:
        """Drop runs that have ended or are abandoned."""
        for run in runs:
            self.end_run(run)

    def get(self, number: int) -> Run | None:
        """The run of that number; None when it has ended or was abandoned."""
        return self._by_number.get(number)

    def are_over(self) -> bool:
        """No run is under way, and no task waits for one."""
        return not (self._by_number or self._waiting)

    def all(self) -> list[Run]:
        """Every run."""
        return list(self._by_number.values())

    def which(self, concerns: Concerns) -> list[Run]:
        """Those runs that something concerns."""
        return [run for run in self._by_number.values() if concerns(run)]

    @contextmanager
    def waiting(self, task: asyncio.Task[AnyOutcome], asked: Run) -> Iterator[None]:
        """Inside the block a run waits for the task, which carries out the run that it has asked for."""
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = {}
        waiting[task] = asked
        try:
            yield
        finally:
            del waiting[task]

    def waits(self, run: Run) -> bool:
        """True while a run waits for another that it has asked for."""
        return any(asked.parent is run for asked in (self._waiting or {}).values())

    def stop_waiting(self, concerns: Concerns) -> None:
        """Cancel the tasks that wait for runs which something concerns."""
        for task, asked in (self._waiting or {}).items():
            if concerns(asked):
                task.cancel()


class TurnSpans(Protocol):
    """The seam to the spans of one turn in this Runner, and of the runs in it: the Runner says what begins, ends and is lost."""

    def begin_run(self, run: Run) -> None:
        """A run begins, or is taken up."""
        ...

    def traceparent(self, run: Run) -> str:
        """The `traceparent` for an actor that is to carry out a run."""
        ...

    def lost(self, run: Run, error: Exception) -> None:
        """The process was lost that carried a run out."""
        ...

    def end_run(self, run: Run, outcome: AnyOutcome | None) -> None:
        """A run has ended; with None it was given up, and may be taken up again."""
        ...

    def end_turn(self, agent: str, outcome: AnyOutcome, left: AnyOutcome | None = None) -> None:
        """The turn has ended, or waits for an answer.

        Args:
            agent: the agent that was selected for it.
            left: how the runs have ended of which nothing was heard; None: they were cancelled.
        """
        ...


def numbers(runs: Collection[Run]) -> tuple[int, ...]:
    """The numbers of runs."""
    return tuple(run.number for run in runs)


UNLIMITED = 2**31
"""Model calls of a turn whose RunConfig sets no limit."""


class CallAllowance:
    """Counts the model calls of one turn, against the limit of its RunConfig.

    Calls may be counted before a run begins, so that it need not ask. Those that it does not make are given back when it ends.
    Runs that were lost could not report their calls, so at least those count that the log has.

    Args:
        limit: of its RunConfig; 0 or less: none.

    Attributes:
        used: the calls that its runs have made, or that were counted beforehand.
    """

    __slots__ = ("_limit", "used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    @property
    def left(self) -> int:
        """Model calls that may still be made."""
        return UNLIMITED if self._limit <= 0 else self._limit - self.used

    def count(self, calls: int) -> None:
        """Count calls that are about to be made."""
        self.used += calls

    def end_run(self, made: int, *, counted: int, was_lost: bool) -> None:
        """A run has ended.

        Args:
            made: the calls that it has reported.
            counted: those that were counted beforehand.
            was_lost: an earlier actor of it was lost. A call of that one which the log has is not made again, nor given back.
        """
        more = made - counted
        self.used += max(0, more) if was_lost else more

    def count_stored(self, calls: int) -> None:
        """The log has these calls of the turn."""
        self.used = max(self.used, calls)


class TurnTask(msgspec.Struct, eq=False):
    """Runs a turn, and stops it as the turn's life allows: see `turn_life`.

    Attributes:
        life: where the turn is in its life.
    """

    life: TurnLife = LAUNCHED
    _task: asyncio.Task[None] | None = None
    _replaced: tuple[TurnTask, ...] = ()

    def start(self, turn: Coroutine[None, None, None]) -> None:
        """Run the turn, which ends with `forget`."""
        self._task = asyncio.create_task(turn)

    def begin_run(self) -> bool:
        """The task makes its first step. Returns False when the turn was stopped before: then it ends at once."""
        self._happen("begun")
        return self.life.phase == "running"

    def decide_end(self) -> None:
        """Decide that the turn ends: the task stops the rest of it, and closes it."""
        self._happen("decided")

    def cancel(self) -> None:
        """Stop the turn's agents and end it as cancelled, unless how it ends is decided already."""
        self._happen("cancelled")

    def give_up(self) -> None:
        """Stop the turn without a word: all that it writes is refused, its end, too."""
        self._happen("replaced")

    def replace(self, before: TurnTask) -> None:
        """Go on in the place of an older epoch, which may say and write nothing any more. If that was cancelled, so is this."""
        if before.life.was_cancelled:
            self.cancel()
        before.give_up()
        self._replaced = (*self._replaced, *before._replaced, before)

    async def is_alone(self) -> None:
        """Wait until those whose place it takes have ended: what their agents were doing may be done again."""
        for before in self._replaced:
            await before.over()

    async def over(self) -> None:
        """Wait until the task has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def forget(self) -> None:
        """The task makes its last step. On the local engine its context knows the turn: each would leave garbage."""
        self._task, self._replaced = None, ()

    def _happen(self, happening: Happening) -> None:
        self.life, interrupts = self.life.after(happening)
        if interrupts and self._task is not None:
            self._task.cancel()


BEFORE_RUN = "before_run"
"""Key of a note that stands on the event of plugins' before_run hooks: whether they have answered the message."""


class OpeningMessage(msgspec.Struct, frozen=True):
    """The user's message that opened a turn, as an event and in its wire form, and how the turn is to be run."""

    event: Event
    stored: p.StoredEvent
    config: RunConfig

    @property
    def content(self) -> Content:
        """The user's message."""
        return self.event.content or Content()

    @property
    def flow(self) -> str:
        """The name of the flow definition that the turn carries out; "" when it is none, or an agent's own."""
        return self.event.flow.run if self.event.flow is not None else ""


class RunningTurn:
    """A turn that runs in this Runner.

    Attributes:
        ref: names it, with the epoch in which it runs.
        key: its name, whatever the epoch.
        version: of the tree, by which it runs.
        agent: the agent that was selected for it.
        message: the message that opened it.
        is_answer: it was paused, and its message answers.
        is_taken_up: it was open, and the Runner that ran it is gone.
        has_begun: agents have run in it already, before a pause or in the Runner that was lost.
        is_resumed: the runs of the Runner that was lost go on: what the log has of each of them counts as done.
        state: the session's state when it was opened, encoded.
        before: the events before the message that some agent has missed, if they are few.
        after: the events after the message, if all of them are known.
        state_seq: the seq of the newest change of state that a run has reported.
        is_fresh: the log ends with the message and `after`, and `state` is current.
        progress: what the log had of it when the Runner last asked; None when it began here and has lost no run.
        callers: the agents whose calls the message answers, as far as they have not been resumed yet.
        waiting: the calls that wait for the user, of agents that have not run since the log was read.
        begun_seq: the position of the message with which its first run begins anew; 0: that run may go on from an earlier one.
        may_end_early: the last event of the agent that runs may carry the end of the turn, since no other one is to run.
        calls: its model calls, against its limit.
        transfers: the places of its transfers since the message that opened it.
        traceparent: the span of the caller, as the header of that name has it; "" without one.
        answerer: the same of who has answered the turn's calls.
        trace: its spans; None without telemetry.
        task: runs it, and knows where it is in its life.
        has_messages: messages may wait for its agents: see NotifyRuns.
        release_slot: lets another turn be opened, once its first run is under way; None: that was done when it was opened.
    """

    # What few turns have has no place in the others.
    has_begun = is_resumed = False
    after: Sequence[p.StoredEvent] = ()
    state_seq = 0
    progress: p.TurnProgress | None = None
    callers: Sequence[str] = ()
    waiting: Sequence[p.WaitingCall] = ()
    begun_seq = 0
    may_end_early = True
    has_messages = False
    transfers: Set[int] = frozenset()
    answerer = ""
    trace: TurnSpans | None = None
    release_slot: Callable[[], None] | None = None
    _lost: Sequence[object] = ()

    def __init__(
        self,
        ref: p.TurnRef,
        agent: str,
        message: OpeningMessage,
        progress: p.TurnProgress | None = None,
        *,
        is_answer: bool = False,
        is_taken_up: bool = False,
        state: bytes = b"",
        before: Sequence[p.StoredEvent] = (),
        traceparent: str = "",
        version: str = "",
    ) -> None:
        self.ref = ref
        self.key: TurnKey = (ref.key, ref.invocation_id)
        self.version = version
        self.agent = agent
        self.message = message
        self.config = message.config
        self.calls = CallAllowance(message.config.max_llm_calls)
        self.is_answer = is_answer
        self.is_taken_up = is_taken_up
        self.state = state
        self.before = before
        self.is_fresh = True
        self.runs = Runs()
        self.traceparent = traceparent
        self.task = TurnTask()
        if is_taken_up:
            # The Runner that was lost may have known of some.
            self.has_messages = is_taken_up
            self.is_fresh = False
        if progress is not None:
            # One that has nothing after the user's event is run from its beginning.
            self.has_begun = is_answer or progress.head_seq > progress.opened_seq
            self.is_resumed = is_taken_up and self.has_begun
            self._take_in(progress)

    def is_opened_with(self, event_id: str) -> bool:
        """It was opened with the event of that id."""
        return bool(event_id) and self.message.event.id == event_id

    @property
    def is_late_answer(self) -> bool:
        """Its message answers calls that it made, none of which waits any more."""
        return self.is_answer and not self.callers

    @property
    def is_answered_by_hook(self) -> bool:
        """A hook has answered the message in the Runner that was lost: no agent runs."""
        notes = self.progress.agent_states.values() if self.progress is not None else ()
        return any(seq > self.message.stored.seq and note.get(BEFORE_RUN) == "answered" for seq, note in notes)

    @property
    def retried_seq(self) -> int:
        """Failures up to this place do not count: see TurnProgress."""
        return self.progress.retried_seq if self.progress is not None else 0

    def note_lost(self, actor: object) -> bool:
        """Note the loss of an actor, which several runs may tell of. Returns whether it is the first time.

        Args:
            actor: what only runs of that actor have, such as their link to it.
        """
        is_first = all(actor is not each for each in self._lost)
        if is_first:
            self._lost = (*self._lost, actor)
        return is_first

    @property
    def time_left_s(self) -> float | None:
        """Seconds until it is cancelled, 0 or less when its time is over; None: it has no timeout."""
        if self.progress is not None and self.progress.deadline_s:
            return self.progress.deadline_s - now_s()
        return self.config.timeout

    def by(self, run: Run) -> p.TurnRef:
        """The fencing token with which the run writes."""
        ref = self.ref
        return p.TurnRef(ref.key, ref.invocation_id, ref.epoch, run.number, ref.generation)

    def after_seq(self, run: Run) -> int:
        """The seq after which the run's own events stand, as far as the log has been read."""
        if run.transfer_seq is not None:
            return run.transfer_seq
        if run.parent is None:
            return self.begun_seq or (self.progress.first_seq if self.progress is not None else self.message.stored.seq)
        if tool_root(run.branch) != tool_root(run.parent.branch):
            # An agent that is asked as a tool begins with what it is asked.
            return run.user_event.seq
        parent = state_key(run.parent.agent, run.parent.branch, run.parent.node_path)
        state = self.progress.agent_states.get(parent) if self.progress is not None else None
        after_seq = resumption.child_after_seq(state, run.agent, self.after_seq(run.parent))
        return max(after_seq, run.node.since) if run.node is not None else after_seq

    def recorded_transfer(self, run: Run) -> p.TransferRecord | None:
        """The transfer with which the run has ended already, as far as the log has been read."""
        if self.progress is None:
            return None
        after_seq = self.after_seq(run)
        is_answered = run.agent in self.progress.callers and tool_root(run.branch) is None
        if run.transfer_seq is None and (run.parent is None or is_answered):
            # An agent that was answered goes on, though it had transferred the turn before it paused.
            after_seq = max(after_seq, self.progress.opened_seq)
        return resumption.next_transfer(self.progress, run.agent, run.branch, after_seq)

    def follow(self, transfer: p.Transfer) -> None:
        """Take in the events of a run that nothing else ran beside, if they are all that is new in the log."""
        events = transfer.events
        known_seq = self.after[-1].seq if self.after else self.message.stored.seq
        # A turn that was taken up does not know the state.
        if not self.is_taken_up and events and transfer.seq == known_seq + len(events):
            self.after = (*self.after, *events)
            self.is_fresh = True

    def agent_state(self, run: Run, after_seq: int) -> tuple[int, Progress]:
        """The state that the run's agent stored last after `after_seq`, with its seq."""
        if self.progress is None:
            return 0, {}
        return resumption.agent_state(self.progress, run.agent, run.branch, after_seq, run.node_path)

    def apply_progress(self, progress: p.TurnProgress, llm_calls: int, waiting: Sequence[p.WaitingCall] = ()) -> None:
        """Take over what the log has. `llm_calls`: the model calls in it."""
        self._take_in(progress)
        self.waiting = waiting
        self.calls.count_stored(llm_calls)

    def _take_in(self, progress: p.TurnProgress) -> None:
        self.progress = progress
        self.transfers |= {each.seq for each in progress.transfers if each.seq > progress.opened_seq}

    def reach(self, agent: str) -> bool:
        """True when the agent is one whose call the message answers. It is resumed once: later runs of it begin anew."""
        is_reached = agent in self.callers
        if is_reached:
            self.callers = [caller for caller in self.callers if caller != agent]
        return is_reached
