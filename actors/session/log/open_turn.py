"""The open turn of a session in memory, and its record in the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
from msgspec.structs import replace as replace_struct

from actors.interfaces.records import TurnRow
from actors.messages.codec import decode, encode
from actors.messages.config import DEFAULT_RUN_CONFIG, RunConfig
from actors.messages.event import USER, now_s
from actors.messages.json_types import JsonObject, Progress
from actors.messages.protocol import outcomes
from actors.messages.protocol.base import TurnRef
from actors.messages.protocol.progress import RunLosses, TransferRecord, TurnProgress, WaitingCall
from actors.messages.turn_info import LostProcess
from actors.rules.accounting.budgets import LikelyCall
from actors.rules.accounting.turn_usage import Spent, TurnUsage, negated, packed, sum_of_packed, together
from actors.rules.checks.budget_question import BudgetAnswers, scope_of
from actors.rules.routing.answering import CallFacts
from actors.rules.routing.branches import state_key, tool_root
from actors.rules.routing.pending import is_interim
from actors.session.log.event_scan import EventScan

_STATUS: dict[type[outcomes.Outcome], str] = {
    outcomes.Finished: "finished",
    outcomes.Transfer: "finished",
    outcomes.Paused: "paused",
    outcomes.Failed: "failed",
    outcomes.Cancelled: "cancelled",
}

MAX_LOST = 50
"""Lost processes that the record of a turn names: it is written again with each change."""

MAX_REASON = 200
"""Characters of why one was lost."""

OVER = frozenset({"finished", "failed", "cancelled"})
"""Stored states of a turn in which no call of it waits for a function response."""


class OpenCall(NamedTuple):
    """A function call without a response, or with a first one of its long-running tool.

    Attributes:
        author: the agent that made it.
        branch: the agent's.
        name: the function's.
        needs_consent: the user's response is not its result: it decides whether it is run, or answers a question of its tool.
        is_long_running: the user's response is its result, and what its tool returns is an interim one.
        has_response: it has such an interim response.
        in_flow: it was made in a flow, whose controller knows for how long it matters.
        path: of the run of the node that has made it.
        continues: its answer continues the turn. If not, the run that has made it is one of its agent alone, after a late answer.
    """

    author: str
    branch: str | None
    name: str
    needs_consent: bool
    is_long_running: bool = False
    has_response: bool = False
    in_flow: bool = False
    path: str = ""
    continues: bool = True


class _Carried(msgspec.Struct, array_like=True, omit_defaults=True):
    """What a turn's record carries for the Runner that resumes or continues it, and what was lost, for people who look at it."""

    temp: JsonObject = {}
    config: RunConfig = DEFAULT_RUN_CONFIG
    traceparent: str = ""
    losses: Mapping[str, RunLosses | int] = {}
    retried_seq: int = 0
    lost: tuple[LostProcess, ...] = ()
    last_calls: dict[str, int] = {}
    warned: tuple[str, ...] = ()
    version_seq: int = 0
    retry: str = ""
    taken_back: bytes = b""
    unreserved: tuple[str, ...] = ()
    deadline_s: float = 0.0
    failed_tools: int = 0
    resumed_by: str = ""

    def packed(self) -> bytes:
        """Its encoded form; b"" when it is empty, as that of most turns."""
        return b"" if self == _NOTHING else encode(self)


_NOTHING = _Carried()


class TurnNotes(NamedTuple):
    """What the record of a turn tells of its past: see the attributes of SessionTurn."""

    lost_processes: tuple[LostProcess, ...] = ()
    version_seq: int = 0
    retry: str = ""
    taken_back: bytes = b""
    failed_tools: int = 0

    @classmethod
    def of(cls, row: TurnRow) -> TurnNotes:
        """Those in a record."""
        if not row.temp:
            return cls()
        carried = decode(row.temp, _Carried)
        return cls(carried.lost, carried.version_seq, carried.retry, carried.taken_back, carried.failed_tools)

    @classmethod
    def of_open(cls, turn: SessionTurn) -> TurnNotes:
        """Those of an open turn."""
        return cls(turn.lost_processes, turn.version_seq, turn.retry, turn.taken_back, turn.failed_tools)

    @classmethod
    def uncounted(cls, row: TurnRow) -> TurnRow:
        """The record of a turn in a copy of its session, where what it has used does not count, also when it goes on."""
        spent = sum_of_packed([row.usage]) if row.usage else {}
        carried = decode(row.temp, _Carried) if row.temp else _Carried()
        before = sum_of_packed([carried.taken_back]) if carried.taken_back else {}
        # The events of the copy are added to this when the turn goes on.
        less = {spender: amounts for spender, amounts in together(before, negated(spent)).items() if any(amounts)}
        carried.taken_back = packed(less) if less else b""
        return replace_struct(row, temp=carried.packed(), usage=packed({}))

    def left_behind(self) -> bytes:
        """The part of a record that stays when the turn has ended for good."""
        if not any(self):
            return b""
        return encode(
            _Carried(
                lost=self.lost_processes,
                version_seq=self.version_seq,
                retry=self.retry,
                taken_back=self.taken_back,
                failed_tools=self.failed_tools,
            )
        )


class SessionTurn(msgspec.Struct, eq=False):
    """The turn that is open in a session. A struct, since each turn has one, and Python would make its many fields one by one.

    Attributes:
        row: its record, without what changes at each event.
        config: the options with which it was opened last.
        runner: the id of the Runner that runs it; "" when that is not known, since an actor was restarted: the turn is lost.
        temp: its `temp:` state, by keys without prefix.
        traceparent: the span of the caller that began it; "" without one.
        is_recalled: it was open before this Session actor, which does not know what was streamed of it before.
        is_ending: its end is on the way to the disk, and nothing else is accepted for it.
        opened_s: when it began, or went on, in seconds since the epoch, as far as that is known.
        lost: the numbers of runs that may write no more.
        lost_processes: those that were lost in it since it began.
        losses: of its runs, as TurnProgress has them: the next Runner goes on counting.
        deadline_s: when it is cancelled, in Unix seconds, since its RunConfig has a timeout; 0: never.
        retried_seq: failures up to this place do not count: it was retried after them.
        stored: the positions of its events, by id.
        open_calls: its function calls without a response, by id.
        waiting_calls: the ids of those that wait for the user: see `rules.routing.pending`.
        usage: what its events have used.
        reserved: by the numbers of runs, their model calls that are under way, and since when; only where there is a budget.
        unreserved: agents whose newest model call was reserved by a Session actor that was lost before the call ended.
        last_calls: by scope of budget and agent, how many model responses of the agent the log had when it was told to end.
        responses: the number of responses that the log has of each agent's model.
        other_calls: the number of its calls that were none, such as summaries.
        version_seq: up to this place it ran by another version of the tree, which its deployment does not have any more.
        retry: the request that has retried it last, or has taken events of it back; "": none has.
        taken_back: what those events had used, packed: it was paid for. b"": nothing. Of a turn that a fork has copied it is
            less than nothing.
        user_seq: the position of the last message of the user.
        warned: scopes of budgets of the turn of which most is used, and which plugins have heard of.
        raises: by scope of budget, what the user has answered who was asked for more.
        failed_tools: how many calls of tools have failed.
        resumed_by: the Runner that has resumed or retried it last; "": none has.
        before: what other turns of the session had used when it was opened; None while that is not known.
    """

    row: TurnRow
    config: RunConfig
    runner: str = ""
    temp: JsonObject = {}
    traceparent: str = ""
    opened_s: float = msgspec.field(default_factory=now_s)
    is_recalled: bool = False
    is_ending: bool = False
    lost: set[int] = set()
    lost_processes: tuple[LostProcess, ...] = ()
    losses: dict[str, RunLosses] = {}
    deadline_s: float = 0.0
    retried_seq: int = 0
    stored: dict[str, int] = {}
    open_calls: dict[str, OpenCall] = {}
    waiting_calls: dict[str, None] = {}
    usage: TurnUsage = msgspec.field(default_factory=TurnUsage)
    reserved: dict[int, tuple[LikelyCall, float]] = {}
    unreserved: dict[str, None] = {}
    last_calls: dict[str, int] = {}
    responses: dict[str, int] = {}
    other_calls: dict[str, int] = {}
    version_seq: int = 0
    retry: str = ""
    taken_back: bytes = b""
    user_seq: int = 0
    warned: dict[str, None] = {}
    raises: dict[str, BudgetAnswers] = {}
    failed_tools: int = 0
    resumed_by: str = ""
    before: Spent | None = None
    _head_seq: int = 0
    _calls_before: Counter[str] = msgspec.field(default_factory=Counter)
    _answered: dict[str, CallFacts] = {}
    _callers: tuple[str, ...] = ()
    _continues: bool = True
    _progress: dict[str, tuple[int, Progress]] = {}
    _handovers: list[TransferRecord] = []
    _settling: list[asyncio.Future[None]] = []

    def __post_init__(self) -> None:
        self._head_seq = self.user_seq = self.row.first_seq

    @classmethod
    def of(cls, row: TurnRow) -> SessionTurn:
        """The turn of a record. Its events have to be noted."""
        turn = cls(row, DEFAULT_RUN_CONFIG)
        turn.restore(row)
        turn.forget_events()
        return turn

    def restore(self, row: TurnRow) -> None:
        """Take what its record carries in place of what memory has: changes that were to be stored with it were refused."""
        if row.invocation_id != self.row.invocation_id:
            return
        carried = decode(row.temp, _Carried) if row.temp else _Carried()
        self.row = replace_struct(self.row, version=row.version)
        self.config, self.temp, self.traceparent = carried.config, dict(carried.temp), carried.traceparent
        # Older records have numbers of processes by agent.
        self.losses = {run: losses for run, losses in carried.losses.items() if isinstance(losses, RunLosses)}
        self.lost_processes, self.deadline_s = carried.lost, carried.deadline_s
        self.retried_seq = carried.retried_seq
        self.last_calls = dict(carried.last_calls)
        self.warned = dict.fromkeys(carried.warned)
        self.unreserved = dict.fromkeys(carried.unreserved)
        self.version_seq = carried.version_seq
        self.retry, self.taken_back, self.resumed_by = carried.retry, carried.taken_back, carried.resumed_by

    def is_written_by(self, turn: TurnRef) -> bool:
        """True when the fencing token names it, in its epoch, and a run that was not abandoned."""
        return self.row.invocation_id == turn.invocation_id and self.row.epoch == turn.epoch and turn.run not in self.lost

    def begin_end(self) -> None:
        """It is ending, until `end_over` is called. After that it is over, or as open as before."""
        assert not self.is_ending
        self.is_ending = True

    def end_over(self) -> None:
        """Its end is on disk, or cannot be."""
        self.is_ending = False
        for waiting in self._settling:
            if not waiting.done():
                waiting.set_result(None)
        self._settling.clear()

    async def settled(self) -> None:
        """Wait while it is ending."""
        while self.is_ending:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settling.append(waiting)
            await waiting

    def begin_time(self) -> None:
        """Its time begins: when it is opened, answered, retried, or run again from a step. The wait of a pause does not count."""
        timeout_s = self.config.timeout
        self.deadline_s = now_s() + timeout_s if timeout_s is not None else 0.0

    def go_on_by(self, version: str, head_seq: int) -> None:
        """Note the version of the tree by which it goes on after the newest event of its log."""
        if version != self.row.version:
            self.row, self.version_seq = replace_struct(self.row, version=version), head_seq

    def forget_events(self) -> None:
        """Forget its events: they have to be noted again, from the first."""
        self.stored, self.open_calls, self.waiting_calls = {}, {}, {}
        self._answered, self._callers, self._progress, self._handovers = {}, (), {}, []
        self._continues = True
        self.responses, self.other_calls, self.raises, self.failed_tools = {}, {}, {}, 0
        self.usage = TurnUsage(sum_of_packed([self.taken_back]) if self.taken_back else None)
        self._head_seq = self.user_seq = self.row.first_seq
        self._calls_before = Counter()

    def record(self) -> TurnRow:
        """Its record, to be stored while it is open. What it has used is read from its events until it ends."""
        row, carried = self.row, self._carried()
        last_seq = max(self._head_seq, row.opened_seq)
        if (row.temp, row.last_seq, row.usage) == (carried, last_seq, b""):
            return row
        return replace_struct(row, temp=carried, last_seq=last_seq, usage=b"")

    def _carried(self) -> bytes:
        """Encode what its record carries."""
        told = (self.last_calls, tuple(self.warned), self.version_seq, self.retry, self.taken_back, tuple(self.unreserved))
        more = (
            self.traceparent,
            self.losses,
            self.retried_seq,
            self.lost_processes,
            *told,
            self.deadline_s,
            self.failed_tools,
            self.resumed_by,
        )
        if self.config is DEFAULT_RUN_CONFIG and not self.temp and not any(more):
            return b""
        return _Carried(self.temp, self.config, *more).packed()

    def ended(self, agent: str, outcome: outcomes.AnyOutcome) -> TurnRow:
        """Its record, to be stored when it ends, with the events that were noted last. Only one that may go on still carries its
        `temp:` state and options; any keeps what was lost, and where it got another version.

        Args:
            agent: the agent that was selected for it.
        """
        status = _STATUS[type(outcome)]
        temp = self._carried() if status in ("paused", "failed") else TurnNotes.of_open(self).left_behind()
        return replace_struct(
            self.row,
            status=status,
            agent=agent,
            outcome=encode(outcome),
            temp=temp,
            last_seq=self._head_seq,
            ended_s=now_s(),
            usage=packed(self.usage.spent),
        )

    def note(self, event: EventScan, seq: int) -> None:
        """Take in an event of the turn: its position, the calls that it makes or answers, and the progress that it tells."""
        self.stored[event.id] = self._head_seq = seq
        actions, by_user = event.actions, event.author == USER
        if self.losses and not by_user:
            self._end_losses(event, seq)
        if not by_user:
            self.usage.note(event.author, event.model_version, event.amounts())
            if event.responses:
                self.failed_tools += sum(outcome == "failed" for _, outcome in event.tool_results())
        responses = event.responses
        if by_user and event.branch is None:
            self.user_seq, self._calls_before = seq, self._calls()
            answered = [self.open_calls.get(call_id) for call_id, _ in responses] if responses else ()
            # A run that is asked as a tool cannot pause the turn, so no answer reaches it.
            reached = [call for call in answered if call is not None and tool_root(call.branch) is None and call.continues]
            self._callers = tuple([call.author for call in reached])
            if event.node_info is not None and event.for_task():
                self._callers = (*self._callers, event.for_task())
            self._continues = bool(self._callers) or not responses
        for call_id, name in event.calls.items():
            needs_consent = call_id in actions.requested_tool_confirmations
            in_flow = event.flow is not None
            is_long_running = call_id in event.long_running_tool_ids and not needs_consent and not in_flow
            self.open_calls[call_id] = OpenCall(
                event.author,
                event.branch,
                name,
                needs_consent,
                is_long_running,
                in_flow=in_flow,
                path=event.node_path(),
                continues=self._continues,
            )
        for call_id in actions.requested_inputs:
            if call_id in self.open_calls:
                self.open_calls[call_id] = self.open_calls[call_id]._replace(needs_consent=True)
        for call_id, response in responses:
            if by_user:
                if scope := scope_of(call_id):
                    self.raises.setdefault(scope, BudgetAnswers()).note(seq, event.answer(call_id))
                facts = CallFacts(answered_seq=seq, needed_consent=self._waits_for_consent(call_id))
                self._answered[call_id] = facts
            self._note_response(call_id, response, by_user=by_user)
        asks = event.long_running_tool_ids or actions.requested_inputs
        if (responses or asks) and tool_root(event.branch) is None:
            self._note_waiting(event, responses)
        if event.is_said():
            self.responses[event.author] = self.responses.get(event.author, 0) + 1
        elif event.model_version is not None and not by_user:
            # A summary, or a response without content: it was a call, and no step of the agent.
            self.other_calls[event.author] = self.other_calls.get(event.author, 0) + 1
        if actions.agent_state is not None:
            self._progress[state_key(event.author, event.branch, event.node_path())] = (seq, actions.agent_state)
        if actions.transfer_to_agent is not None:
            self._handovers.append(TransferRecord(seq, event.branch, event.author, actions.transfer_to_agent))

    def _note_waiting(self, event: EventScan, responses: Sequence[tuple[str, Collection[str]]]) -> None:
        for call_id, _ in responses:
            # A call with an interim response is still open.
            if event.author == USER or call_id not in self.open_calls:
                self.waiting_calls.pop(call_id, None)
        for call_id in event.long_running_tool_ids:
            if call_id in event.calls:
                self.waiting_calls[call_id] = None
        for call_id in event.actions.requested_inputs:
            if call_id in self.open_calls:
                self.waiting_calls[call_id] = None

    def facts_of(self, call_id: str) -> CallFacts:
        """The facts that decide about an answer to a call, as far as the log has them."""
        answered = self._answered.get(call_id, CallFacts())
        return replace(answered, is_waiting=call_id in self.waiting_calls)

    def _waits_for_consent(self, call_id: str) -> bool:
        call = self.open_calls.get(call_id)
        return call is not None and call.needs_consent

    def _note_response(self, call_id: str, response: Collection[str], *, by_user: bool) -> None:
        call = self.open_calls.get(call_id)
        if call is None:
            return
        if not by_user and call.is_long_running and is_interim(response):
            self.open_calls[call_id] = call._replace(has_response=True)
        elif not (by_user and call.needs_consent):
            del self.open_calls[call_id]

    def _waiting(self) -> Iterator[WaitingCall]:
        """The calls at which the turn waits for the user, apart from those of flows, and of agents that are asked as tools."""
        for call_id, call in self.open_calls.items():
            if (call.is_long_running or (call.needs_consent and not call.in_flow)) and tool_root(call.branch) is None:
                yield WaitingCall(call_id, call.author, call.branch)

    def _end_losses(self, event: EventScan, seq: int) -> None:
        """An agent has stored an event: what was lost before has not kept it from going on."""
        for run in (state_key(event.author, event.branch, event.node_path()), ""):
            if run in self.losses and self.losses[run].seq < seq:
                del self.losses[run]

    def count_loss(self, run: str, times: int, *, ran_code: bool, agent: str, reason: str) -> bool:
        """Take in that the process of a run was lost for the nth time. Returns whether that is news: a message may come twice."""
        known = self.losses.get(run, RunLosses())
        if times <= known.times:
            return False
        own = known.own + (1 if known.alone else 0)
        self.losses[run] = RunLosses(times, known.alone, own, self._head_seq, known.begun_s, ran_code=ran_code)
        if agent:
            self.note_lost(agent, reason)
        return True

    def count_loss_of_runner(self) -> None:
        """Count the loss of the Runner for each run that had a call under way, and for the turn, as that of the run ""."""
        for run in (*self._under_way(), ""):
            known = self.losses.get(run, RunLosses())
            self.losses[run] = replace_struct(known, times=known.times + 1, seq=self._head_seq, with_runner=True)
        self.note_lost()

    def begin_alone(self, run: str, attempt: int) -> bool:
        """Take in that a run begins in a process of its own for the nth time. Returns whether that is news."""
        known = self.losses.get(run, RunLosses())
        if attempt <= known.alone:
            return False
        self.losses[run] = replace_struct(known, alone=attempt, seq=self._head_seq, begun_s=now_s())
        return True

    def _calls(self) -> Counter[str]:
        """The model calls that the log has, by agent."""
        return Counter(self.responses) + Counter(self.other_calls)

    def _under_way(self) -> dict[str, tuple[str, ...]]:
        """The functions that are called and have no response, but for those that the user has to answer. By `state_key`."""
        found: dict[str, tuple[str, ...]] = {}
        for call_id, call in self.open_calls.items():
            if call_id not in self.waiting_calls and not call.has_response:
                run = state_key(call.author, call.branch, call.path)
                found[run] = (*found.get(run, ()), call.name)
        return found

    def note_lost(self, agent: str = "", reason: str = "") -> None:
        """Note that a process was lost in it; without an agent its Runner's."""
        one = LostProcess(agent=agent, lost_s=now_s(), reason=reason[:MAX_REASON])
        self.lost_processes = (*self.lost_processes, one)[-MAX_LOST:]

    def progress(self) -> TurnProgress:
        """The progress of the turn."""
        return TurnProgress(
            first_seq=self.row.first_seq,
            opened_seq=self.row.opened_seq,
            head_seq=self._head_seq,
            callers=self._callers,
            agent_states=self._progress,
            transfers=tuple(self._handovers),
            waiting=tuple(self._waiting()),
            model_calls=dict(self._calls() - self._calls_before),
            losses=dict(self.losses),
            under_way=self._under_way(),
            deadline_s=self.deadline_s,
            retried_seq=self.retried_seq,
            config=self.config if self.config.outlives_pauses else None,
        )
