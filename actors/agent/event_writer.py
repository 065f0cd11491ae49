"""The events of one run on their way to the log: shown to interceptors, addressed, measured, stored, or streamed only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from actors.agent.session_reader import SessionReader
from actors.behaviours.interceptor import RunInterceptor
from actors.definitions.spec import AgentSpec
from actors.errors import FencedError
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.content import Content
from actors.messages.event import USER, Event, new_event_id, now_s
from actors.messages.flow import FlowMark
from actors.messages.graph import NodeInfo, root_path
from actors.messages.json_types import StateDelta
from actors.refs import SessionRef
from actors.rules.checks.state import only_temp, without_temp
from actors.rules.checks.values import encoded, stored_delta
from actors.rules.handover_events import HandoverEvents
from actors.rules.partials import AnswerPartials

_NO_CHANGES: StateDelta = {}
"""What most events change of the state."""


class EventWriter:
    """Writes the events of one run, and keeps what they say of the run as a whole.

    Args:
        reader: takes in every event that is stored.

    Attributes:
        has_escalated: the run has, however it ends: an event of it had `actions.escalate`, or a child's that it does not absorb.
        has_closed: the run's last event has closed the turn.
        is_stopped: the run is being stopped, and can write nothing more.
        state_seq: the place of the run's last event that changed the state, 0 without one.
        handover: the run's events, for an agent to which it transfers; None before the first.
        mark: what each event says of the flow that it belongs to, if it says nothing itself; None for no flow.
        node_info: gives what an event says of the node that it comes from, if it says nothing itself; None: the run is no node's.
    """

    has_escalated = False
    has_closed = False
    is_stopped = False
    state_seq = 0
    mark: FlowMark | None = None
    # A method of its own kept here would leave each writer to the collector.
    node_info: Callable[[Event], NodeInfo | None] | None = None
    _partials: PartialEvents | None = None
    handover: HandoverEvents | None = None
    interceptors: RunInterceptor

    def __init__(
        self,
        spec: AgentSpec,
        message: p.Invoke,
        session: SessionRef,
        reader: SessionReader,
        counts: dict[str, int],
    ) -> None:
        self._spec = spec
        self._turn = message.turn
        self._branch = message.branch
        self._closes = message.closes
        self._session = session
        self._reader = reader
        self._counts = counts
        self._notes: Sequence[p.Note] = message.notes

    def recall(self, done: Sequence[Event]) -> None:
        """Take in what the run had stored before it was lost."""
        if any(event.actions.escalate for event in done):
            self.has_escalated = True
        self.state_seq = max((event.seq for event in done if event.actions.state_delta), default=0)

    async def emit(self, event: Event, *, is_last: bool = False) -> Event:
        """Show an event to interceptors, and store or deliver it: see Context."""
        event = await self.interceptors.change_event(self.addressed(event))
        if event.partial:
            return await self._deliver(event)
        return (await self._store((event,), p.Finished(agent=self._spec.name) if is_last else None))[0]

    async def emit_all(self, events: Sequence[Event], *, end: p.Finished | None = None) -> Sequence[Event]:
        """Show complete events to interceptors, and store them together, or none of them: see Context."""
        change = self.interceptors.change_event
        events = [self.addressed(event) for event in events]
        return await self._store([event if _is_note(event) else await change(event) for event in events], end)

    async def record(self, event: Event) -> Event:
        """Store a complete event that interceptors do not see."""
        return (await self.record_all((event,)))[0]

    async def record_all(self, events: Sequence[Event], *, end: p.Finished | None = None) -> Sequence[Event]:
        """Store events together that interceptors do not see: otherwise like `emit_all`."""
        return await self._store([self.addressed(event) for event in events], end)

    async def _store(self, events: Sequence[Event], end: p.Finished | None) -> Sequence[Event]:
        """Store events that have their address, and that nothing else refers to."""
        self._refuse_if_stopped()
        temp: StateDelta = {}
        changes: dict[int, StateDelta] = {}
        complete: list[Event] = []
        raws: list[bytes] = []
        for event in events:
            if event.actions.state_delta:
                event, changes[len(complete)] = _without_temp_keys(event, temp)
            complete.append(event)
            raws.append(encoded(event, self._spec.limits))
        if self._partials is not None:
            await self._partials.flush()
        outcome = end if self._closes else None
        self.has_closed = outcome is not None
        if outcome is not None and not outcome.agent:
            outcome = msgspec.structs.replace(outcome, agent=self._spec.name)
        append = p.Append(turn=self._turn, events=raws, temp=temp, outcome=outcome, selected=self._closes, notes=self._notes)
        appended = await self._append(append)
        self._counts["events"] += len(complete)
        before_seq = appended.state_seq
        for place, event in enumerate(complete):
            seq, raw, changed = appended.first_seq + place, raws[place], changes.get(place, _NO_CHANGES)
            msgspec.structs.force_setattr(event, "seq", seq)
            self._reader.add_own(event, len(raw), changed, before_seq)
            if event.actions.escalate:
                self.has_escalated = True
            if end is None:
                # After the end there is no transfer.
                self.handover = self.handover or HandoverEvents()
                self.handover.add(p.StoredEvent(seq, raw), changes_state=bool(changed))
            if changed:
                self.state_seq = before_seq = seq
        return complete

    async def _deliver(self, event: Event) -> Event:
        self._refuse_if_stopped()
        if event.actions.state_delta:
            event, _ = _without_temp_keys(event, {})
        self._counts["partials"] += 1
        if self._partials is None:
            self._partials = PartialEvents(self._session, self._turn)
        await self._partials.send(encoded(event, self._spec.limits))
        return event

    async def ask(self, branch: str, content: Content) -> p.StoredEvent:
        """Store the user's message to an agent that is run as a tool on a branch of its own."""
        raw = encode(self.addressed(Event(author=USER, branch=branch, content=content)))
        appended = await self._append(p.Append(turn=self._turn, events=[raw], notes=self._notes))
        self._reader.add_foreign()
        return p.StoredEvent(appended.first_seq, raw)

    def notes_with(self, note: Event | None) -> Sequence[p.Note]:
        """The notes that a run which this one asks for has to bring along: those not known to be stored, and one more.

        Args:
            note: complete, with its id; it is on its way to the log at the same time. None: there is no more.
        """
        if note is None:
            return self._notes
        return (*self._notes, p.Note(self._turn.run, encode(note)))

    def end_run(self) -> None:
        """The run is over: nothing more comes of an answer that it has streamed in part."""
        if self._partials is not None:
            self._partials.give_up()

    async def _append(self, append: p.Append) -> p.Appended:
        appended = await self.interceptors.append(append)
        self._notes = ()
        return appended

    def _refuse_if_stopped(self) -> None:
        if self.is_stopped:
            # User code may catch its cancellation and go on, while the turn around it is not fenced.
            raise FencedError(self._turn.invocation_id, self._turn.epoch)

    def addressed(self, event: Event) -> Event:
        """A copy of the event with its ids, author, time and branch; with the tasks of a flow's round, or the node of a graph."""
        return msgspec.structs.replace(
            event,
            id=event.id or new_event_id(),
            invocation_id=self._turn.invocation_id,
            seq=0,
            author=event.author or self._spec.name,
            timestamp=event.timestamp or now_s(),
            branch=event.branch or self._branch,
            flow=event.flow or self.mark,
            node_info=event.node_info or (self.node_info or self._root_info)(event),
        )

    def _root_info(self, event: Event) -> NodeInfo | None:
        """The path of an agent for which others work: what it says stands above what these do. None for any other."""
        is_above = event.author != USER and self._spec.has_runs_below
        return NodeInfo(path=root_path(self._spec.name)) if is_above else None


def _without_temp_keys(event: Event, temp: StateDelta) -> tuple[Event, StateDelta]:
    """The event without `temp:` keys, which go into `temp`; and all that it changes of the state."""
    changed = stored_delta(event.actions.state_delta)
    if changed:
        temp.update(only_temp(changed))
        actions = msgspec.structs.replace(event.actions, state_delta=without_temp(changed))
        event = msgspec.structs.replace(event, actions=actions)
    return event, changed


def _is_note(event: Event) -> bool:
    return event.node_info is not None and event.node_info.is_note


class PartialEvents:
    """Sends partial events: the first at once, and those that come while a batch is on its way together.

    It keeps what it has sent of an answer, merged and bounded: a Session actor that was started again lacks the beginning.
    """

    def __init__(self, session: SessionRef, turn: p.TurnRef) -> None:
        self._session = session
        self._turn = turn
        self._number = 0
        self._answer: _Answer | None = None

    async def send(self, raw: bytes) -> None:
        """Send an encoded event; returns while it may still be on its way. Raises what sending earlier ones has raised."""
        answer = self._answer
        if answer is None:
            answer = self._answer = _Answer(self._session, self._turn, self._number)
        answer.add(raw)
        # Let the sender go on: a model that never waits would otherwise keep the first event back.
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Return when all events have arrived: their answer is over. Raises what sending them has raised."""
        if self._answer is not None:
            await self._answer.end()
            self._answer = None
            self._number += 1

    def give_up(self) -> None:
        """The run is over: what it has not said to its end is not waited for."""
        if self._answer is not None:
            self._answer.give_up()


class _Answer:
    """The partials of one answer: one task sends them all.

    Args:
        number: of the answer in the run.
    """

    def __init__(self, session: SessionRef, turn: p.TurnRef, number: int) -> None:
        self._session = session
        self._turn = turn
        self._number = number
        self._waiting: list[bytes] = []
        self._sent = AnswerPartials()
        self._is_mute = self._is_over = False
        # Set while the sender has nothing to send.
        self._woken: asyncio.Future[None] | None = None
        self._sender = asyncio.create_task(self._send_all())
        # A run that fails does not wait for it.
        self._sender.add_done_callback(lambda sender: sender.cancelled() or sender.exception())

    def add(self, raw: bytes) -> None:
        """Have one more sent. Raises what sending earlier ones has raised."""
        if self._sender.done():
            self._sender.result()
        self._waiting.append(raw)
        self._wake()

    def end(self) -> asyncio.Task[None]:
        """The answer is over. Returns the task that sends what is left of it."""
        self.give_up()
        return self._sender

    def give_up(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _send_all(self) -> None:
        while self._waiting or not self._is_over:
            if not self._waiting:
                self._woken = self._sender.get_loop().create_future()
                await self._woken
                self._woken = None
                continue
            events, self._waiting = self._waiting, []
            if not self._is_mute:
                await self._send(events)

    async def _send(self, events: Sequence[bytes]) -> None:
        first = self._sent.count
        self._sent.add([p.StoredEvent(0, raw) for raw in events])
        told = await self._session.ask(p.TellPartial(turn=self._turn, events=events, answer=self._number, first=first))
        if isinstance(told, p.TellAgain):
            await self._send_again()

    async def _send_again(self) -> None:
        """Send all of the answer so far; or nothing more of it, if it became too long to be kept."""
        self._is_mute = not self._sent.is_whole
        if self._is_mute:
            return
        partials = self._sent.partials()
        self._sent = AnswerPartials()
        self._sent.add(partials)
        raws = [partial.raw for partial in partials]
        await self._session.ask(p.TellPartial(turn=self._turn, events=raws, answer=self._number, again=True))
