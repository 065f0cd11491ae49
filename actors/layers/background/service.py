"""Background runs, as a service of the Session actor.

Rules of this file:

- A run is a turn in a session of its own, named after the one in which it was started, and served by the same actor. It begins as
  a message does that waits: a schedule that is due at once. So what begins turns of schedules begins it, whatever is lost.
- Its record is a schedule that is never due. It changes in the step in which the turn ends, and the message to the agent
  that has started it is stored in that step, too. So it hears of each end once.
- What is sent to a run, and that it is cancelled, waits in the same way. The record of a run that is cancelled says so, and no
  message that waits begins a turn of it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import cast
from weakref import WeakValueDictionary

from msgspec.structs import replace

from actors.actor import Handler, Handlers, KeyedLocks
from actors.errors import (
    FencedError,
    RequestError,
    RunNotFoundError,
    SessionBusyError,
    TooManyRunsError,
    TurnCancelledError,
)
from actors.errors.hints import did_you_mean
from actors.interfaces.stores import RemoveSession, TurnFilter, Write
from actors.layers.background.messages import AskParent, CancelRun, FindRuns, RunsReply, StartRun, SteerRun
from actors.layers.background.rules import Words, ended, excess, last_words, question_event, told_event, told_id
from actors.layers.schedules.due_times import DueTimes
from actors.layers.schedules.messages import PassDueTime
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import AddSchedule, AdvanceSchedule, NoteRemoval, OldSession, RemoveSchedule
from actors.layers.stores.schedule import (
    SchedulePlan,
    ScheduleRow,
    StoredRun,
    Timing,
    WaitingMessage,
    message_name,
    message_prefix,
    run_name,
    runs_prefix,
    waiting_row,
)
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import Background, RunConfig
from actors.messages.content import Content
from actors.messages.event import RUN, USER, Event, words_id
from actors.messages.protocol.base import Message, Request
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import RUN_LENGTH, SessionKey, SessionPlace, conversation_of, run_of, run_session
from actors.messages.turn_info import BackgroundRun
from actors.rules.checks.ids import MAX_ID
from actors.rules.routing.selection import address_obstacle
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.log.writer import Events
from actors.session.service import SessionParts, SessionService

LAST_EVENTS = 100
"""Among so many events of a run that is read again its last words are looked for."""

HEARING = frozenset({"check_run", "wait_for_runs"})
"""The tools by which an agent takes note of ends."""


class BackgroundRuns(SessionService):
    """Answers StartRun, FindRuns, SteerRun, CancelRun and AskParent, and has a part in the end of turns: see `EndingHook`.

    Args:
        due: has Runners begin what is due.
    """

    def __init__(self, parts: SessionParts, due: DueTimes) -> None:
        self._parts = parts
        self._store = store_of(parts.access)
        self._due = due
        self._in_order: KeyedLocks[SessionKey] = KeyedLocks()
        # Of the runs whose logs are in memory, as they were read; how they end the store knows.
        self._records: dict[SessionKey, ScheduleRow] = {}
        # The sessions of runs whose first messages are about to begin their turns.
        self._beginning: set[SessionKey] = set()
        # Of each conversation: see `_with_room`.
        self._counted: dict[SessionKey, Sequence[str]] = {}
        # Conversations that are looked at, of which no run has ended meanwhile.
        self._undisturbed: set[SessionKey] = set()
        self._waits: WeakValueDictionary[SessionKey, asyncio.Event] = WeakValueDictionary()
        # The messages about ends of which the open turn of a session takes note: they are removed with its note.
        self._heard: dict[SessionKey, dict[str, str]] = {}
        # What agents of runs have said last.
        self._words: dict[SessionKey, Words | None] = {}
        parts.logs.before_load.append(self._load)
        parts.append_hooks.append(self._appended)
        parts.due_refusals.append(self.refusal)
        parts.ending_hooks.append(self)
        parts.removal_hooks.append(self._removed)

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            StartRun: self.start_run,
            FindRuns: self.find_runs,
            SteerRun: self.steer_run,
            CancelRun: self.cancel_run,
            AskParent: self.ask_parent,
        }

    def around(self, kind: type[Request[Message]], handler: Handler) -> Handler:
        """A run whose turn cannot begin has failed. While it begins its session stays. No list of sessions has those of runs."""
        if kind is PassDueTime:
            return lambda message: self._pass(message, handler)
        if kind is p.OpenTurn:
            return lambda message: self._open(message, handler)
        return (lambda message: self._listed(message, handler)) if kind is p.ListSessionsRequest else handler

    async def start_run(self, message: StartRun) -> RunsReply:
        """Start a run.

        Raises:
            FencedError: the turn that starts it is not open.
            UnknownAgentError: there is no such agent.
            TooManyRunsError: as many are under way as may.
            RequestError: it cannot be started.
            StoreError: it could not be stored.
        """
        key = message.key
        session = run_session(key.session, message.run)
        if len(session) > MAX_ID:
            raise RequestError(
                f"session id {key.session!r} is too long for a background run: it may have {MAX_ID - RUN_LENGTH} characters"
            )
        async with self._in_order.locked(_conversation(key)):
            run = SessionKey(key.app, key.user, session)
            same = await self._read(run)
            if same is None:
                under_way = await self._with_room(key, message.options)
                log = await self._parts.logs.load(key)
                parent = self._records.get(key)
                if log.open_id() != message.invocation_id or (parent is not None and _record_of(parent).is_cancelled):
                    raise FencedError(message.invocation_id, 0)
                _ = self._parts.versions.topology("")[message.agent]
                same = self._record(message, run)
                await self._due.write(key, [AddSchedule(same.key, same), self._first(message, session, _shown(same).started_s)])
                self._counted[_conversation(key)] = [*under_way, key.session]
        return RunsReply(runs=[self._now(same)])

    async def _with_room(self, key: SessionKey, options: Background) -> Sequence[str]:
        """The sessions in which runs were started that are under way, and maybe some whose runs have ended.

        They are forgotten: where the start fails, only the store knows. Raises TooManyRunsError, StoreError.
        """
        conversation = _conversation(key)
        counted = self._counted.pop(conversation, None)
        if counted is not None and excess(key.session, options, counted) is None:
            return counted
        for other in [each for each in self._counted if self._parts.logs.in_memory(each) is None]:
            del self._counted[other]
        under_way = [row.key.session for row in await self._rows(key, conversation.session) if not self._now(row).is_over]
        if (found := excess(key.session, options, under_way)) is not None:
            raise TooManyRunsError(key.session, *found)
        return under_way

    def _record(self, message: StartRun, key: SessionKey) -> ScheduleRow:
        run = BackgroundRun(
            id=message.run,
            agent=message.agent,
            started_by=message.started_by,
            session_id=message.key.session,
            run_session_id=key.session,
            status="running",
            started_s=self._due.now_s(),
        )
        parent = self._records.get(message.key)
        answers_to = _record_of(parent).run.agent if parent is not None else self._speaker(message.started_by)
        record = StoredRun(run=run, options=message.options, answers_to=answers_to)
        raw = encode(SchedulePlan(timing=Timing(at_s=int(run.started_s)), content=Content(), run=record))
        return ScheduleRow(key=message.key, name=run_name(key.session), id=message.run, due_s=None, raw=raw)

    def _speaker(self, agent: str) -> str:
        """The agent, if the user may speak to it by itself; else ""."""
        topology = self._parts.versions.topology("")
        if topology.find(agent) is None or topology.is_beside(agent) or address_obstacle(topology, agent) is not None:
            return ""
        return agent

    def _first(self, message: StartRun, session: str, started_s: float) -> AddSchedule:
        """The message with which the turn of a run begins."""
        given = message.config
        config = RunConfig(
            agent=message.agent,
            max_llm_calls=given.max_llm_calls,
            max_transfers=given.max_transfers,
            budget=given.budget,
            user_daily_budget=given.user_daily_budget,
            app_daily_budget=given.app_daily_budget,
            agent_budgets=given.agent_budgets,
            custom_metadata={RUN: {"id": message.run, "agent": message.agent, "status": "running"}, "agent": message.started_by},
        )
        key = SessionKey(message.key.app, message.key.user, session)
        plan = WaitingMessage(creates=True)
        return self._message(key, f"run-{message.run}", started_s, plan, config, message.content, is_new=True)

    def _message(
        self,
        key: SessionKey,
        invocation_id: str,
        sent_s: float,
        message: WaitingMessage,
        config: RunConfig,
        content: Content,
        *,
        is_due: bool = True,
        is_new: bool = False,
    ) -> AddSchedule:
        """A message that waits. `is_due`: it begins a turn if no agent reads it."""
        name, at_s = message_name(key, sent_s, invocation_id, is_new=is_new), int(self._due.now_s())
        row = waiting_row(key, name, invocation_id, message, config, at_s=at_s, content=content, is_due=is_due)
        return AddSchedule(key, row)

    async def find_runs(self, message: FindRuns) -> RunsReply:
        """List runs, or wait for them.

        Raises:
            RunNotFoundError: one is not there.
            StoreError: they could not be read.
        """
        key = message.key
        with suppress(TimeoutError):
            async with asyncio.timeout(message.timeout_s if message.wanted else None):
                while True:
                    changed = self._waits.setdefault(key, asyncio.Event())
                    rows = await self._found(key, message.runs)
                    over = [row for row in rows if self._now(row).is_over]
                    if not message.wanted or len(over) == len(rows) or (over and message.wanted == "any"):
                        break
                    await changed.wait()
        rows = await self._found(key, message.runs)
        log = self._parts.logs.in_memory(key)
        runs = [self._now(row) for row in rows]
        told = [_record_of(row).told for row, run in zip(rows, runs, strict=True) if run.is_over]
        # A turn that was cancelled while it waited tells nothing to its agent.
        if told and message.heard_by and log is not None and log.open_id() == message.heard_by:
            self._heard.setdefault(key, {}).update(told)
        return RunsReply(runs=runs)

    async def steer_run(self, message: SteerRun) -> RunsReply:
        """Leave a message for a run.

        Raises:
            RunNotFoundError: it is not there.
            RequestError: it has ended.
            StoreError: it could not be stored.
        """
        [row] = await self._found(message.key, [message.run])
        run = self._now(row)
        if run.is_over:
            raise RequestError(f"background run {run.id!r} is {run.status}: it reads no message")
        key = SessionKey(message.key.app, message.key.user, run.run_session_id)
        now_s = self._due.now_s()
        event = Event(id=words_id(message.id), invocation_id=message.id, author=USER, timestamp=now_s, content=message.content)
        config = RunConfig(agent=run.agent, on_concurrent_turn="steer")
        async with self._in_order.locked(key):
            if not await self._is_known(key, event):
                leaving = WaitingMessage(event=encode(event))
                await self._due.write(key, [self._message(key, message.id, now_s, leaving, config, Content())])
        return RunsReply(runs=[run])

    async def _is_known(self, key: SessionKey, event: Event) -> bool:
        """A message was sent before: it waits in the session, or is in its log. Raises StoreError."""
        prefix = message_prefix(key)

        def waits() -> bool:
            return any(row.id == event.invocation_id for row in self._store.schedules_with(key.app, key.user, prefix))

        return await self._parts.access.read(waits) or await self._parts.reader.position(key, event.id) is not None

    async def cancel_run(self, message: CancelRun) -> RunsReply:
        """Have a run cancelled, and those that it has started. Raises RunNotFoundError, StoreError."""
        key, writes = message.key, list[Write]()
        # None that it starts meanwhile is left out.
        async with self._in_order.locked(_conversation(key)):
            for each in await self._under_way(key, message.run):
                run, cancel = _key_of(each), WaitingMessage(cancels=self._turn(each) or f"run-{each.id}")
                cancelled = _changed(each, replace(_record_of(each), is_cancelled=True))
                writes += [RemoveSchedule(each.key, each.name, each.id), AddSchedule(each.key, cancelled)]
                # Under one name, however often it is asked for.
                began_s = _shown(each).started_s
                writes.append(self._message(run, f"cancel-{each.id}", began_s, cancel, RunConfig(), Content()))
                if run in self._records:
                    self._records[run] = cancelled
            await self._due.write(key, writes)
        return RunsReply(runs=[self._now(each) for each in await self._found(key, [message.run])])

    async def _under_way(self, key: SessionKey, run: str) -> list[ScheduleRow]:
        """A run, and those that it has started, but for those that have ended. Raises RunNotFoundError, StoreError."""
        conversation = _conversation(key)
        while True:
            # An end that is on its way to the disk would be overwritten.
            self._undisturbed.add(conversation)
            try:
                await self._parts.access.commits.flush()
                [row] = await self._found(key, [run])
                rows = [row, *await self._rows(key, _session_of(row))]
                if conversation in self._undisturbed:
                    owes_end = self._parts.access.pending_ends.owes_end
                    return [each for each in rows if not self._now(each).is_over and not owes_end(_key_of(each))]
            finally:
                self._undisturbed.discard(conversation)

    async def refusal(self, message: p.OpenTurn, time: ScheduledTime) -> TurnCancelledError | None:
        """No message that waits begins a turn of a run that was cancelled. Raises StoreError.

        So neither its first message does, nor the end of a run that it has started.
        """
        if not time.is_message or run_of(message.key.session) is None:
            return None
        row = await self._read(message.key)
        return TurnCancelledError(message.invocation_id) if row is not None and _record_of(row).is_cancelled else None

    async def ask_parent(self, message: AskParent) -> p.Ack:
        """Leave a question of a run. Raises RequestError: it has ended. StoreError."""
        row, now_s = await self._read(message.key), self._due.now_s()
        if row is None or self._now(row).is_over:
            raise RequestError("the background run has ended: it asks nothing any more")
        event = question_event(_shown(row), message.question, message.id, now_s)
        async with self._in_order.locked(row.key):
            if not await self._is_known(row.key, event):
                await self._due.write(row.key, [self._to_parent(row, event, now_s)])
        return p.Ack()

    async def _removed(self, key: SessionKey) -> Sequence[Write]:
        """The writes that remove the runs of a session, which is removed. A run whose own session it is has ended.

        Raises:
            SessionBusyError: a run works, or is about to begin.
            StoreError: they could not be read.
        """
        own, rows = await self._read(key), await self._rows(key, key.session)
        notes = await self._parts.access.read(self._notes, rows)
        # From here to the write nothing is awaited.
        for row in rows:
            run = _key_of(row)
            log = self._parts.logs.in_memory(run)
            if run in self._beginning or (log is not None and (log.turn is not None or len(log.queue))):
                raise SessionBusyError(run.session, self._turn(row) or f"run-{row.id}")
        writes = [] if own is None or _shown(own).is_over else self._end(own, p.Cancelled(), "", "removed", speaks=False)
        for row in rows:
            run = _key_of(row)
            self._parts.logs.evict(run)
            # The turn of one that has not begun finds no message any more.
            writes += [RemoveSession(run), RemoveSchedule(run, _first_name(row), f"run-{row.id}")]
            writes.append(RemoveSchedule(row.key, row.name, row.id))
        return [*writes, *notes]

    def _notes(self, rows: Sequence[ScheduleRow]) -> list[Write]:
        """In the store's thread: the notes that the artifacts of runs are still there, where these have begun."""
        notes = list[Write]()
        for key in map(_key_of, rows):
            if (session := self._store.session(key)) is not None:
                turns = self._store.turns(TurnFilter(app=key.app, user=key.user, session=key.session, limit=session.head_seq))
                notes.append(NoteRemoval(key, OldSession(key, session.updated_s, session.head_seq, len(turns))))
        return notes

    async def _open(self, message: p.OpenTurn, handler: Handler) -> Message:
        """Open a turn. The session of a run is not removed between the look for its first message and the begin of its turn."""
        time = message.due
        if time is None or not time.is_message or not time.is_new:
            return await handler(message)
        self._beginning.add(message.key)
        try:
            # What was removed before is gone from the store, too.
            await self._parts.access.commits.flush()
            return await handler(message)
        finally:
            self._beginning.discard(message.key)

    async def _pass(self, message: PassDueTime, handler: Handler) -> Message:
        """A message that begins no turn; if it is the first of a run, that has failed."""
        key, time = message.key, message.time
        of = run_of(key.session) if time.is_message and message.error else None
        if of is None or time.id != f"run-{of[1]}":
            return await handler(message)
        async with self._due.changing(key, time.id):
            row = await self._read(key) if await self._parts.logs.find(key) is None else None
            if row is not None and not _shown(row).is_over:
                is_cancelled = message.error.startswith(TurnCancelledError.__name__)
                outcome: p.AnyOutcome = p.Cancelled() if is_cancelled else p.Failed(error_code="", error_message=message.error)
                # In one step: the message would not come again.
                await self._due.write(key, [AdvanceSchedule(key, time), *self._end(row, outcome, "", time.id)])
                self._wake(row)
                return p.Ack()
        return await handler(message)

    async def _listed(self, message: p.ListSessionsRequest, handler: Handler) -> Message:
        """Sessions without those of runs. Raises StoreError."""
        sessions, limit = list[p.SessionInfo](), message.limit
        while True:
            page = cast(p.SessionsReply, await handler(message)).sessions
            sessions += [each for each in page if run_of(each.key.session) is None]
            if limit is None or len(page) < limit or len(sessions) >= limit:
                return p.SessionsReply(sessions=sessions[:limit])
            last = page[-1]
            message = replace(message, before=SessionPlace(last.updated_s, last.key.user, last.key.session))

    # The part in the end of turns.

    def writes(self, log: SessionLog, turn: SessionTurn, outcome: p.AnyOutcome, events: Events) -> Sequence[Write]:
        """The record of the run, and the message that tells of its end."""
        row = self._records.get(log.key)
        if row is None:
            return ()
        words, invocation_id = self._words.get(log.key), turn.row.invocation_id
        said = words.text if words is not None and words.invocation_id == invocation_id else ""
        return self._end(row, outcome, said, f"{invocation_id}-{turn.row.epoch}")

    def _appended(self, log: SessionLog, _: p.Append, events: Events) -> Sequence[Write]:
        """Note what the agents of a run say. With the note of an end the message about it is removed."""
        key = log.key
        if key in self._records:
            words = last_words(raw for raw, _ in reversed(events))
            self._words[key] = words or self._words.get(key)
        if key not in self._heard or not any(name in HEARING for _, event in events for name, _ in event.tool_results()):
            return ()
        return [RemoveSchedule(key, name, of) for name, of in self._heard.pop(key).items() if name]

    def _end(self, row: ScheduleRow, outcome: p.AnyOutcome, said: str, turn: str, *, speaks: bool = True) -> list[Write]:
        """The record of a run that has ended, and the message that tells of it. `speaks`: this may begin a turn."""
        self._undisturbed.discard(_conversation(row.key))
        now_s = self._due.now_s()
        record = _record_of(row)
        run = ended(record.run, outcome, said, now_s)
        event = told_event(run, record.options, told_id(run, turn), now_s)
        is_due = speaks and record.options.on_done == "speak"
        told = self._to_parent(row, event, now_s, is_due=is_due)
        changed = _changed(row, replace(record, run=run, told=(told.row.name, told.row.id)))
        return [RemoveSchedule(row.key, row.name, row.id), AddSchedule(row.key, changed), told]

    def _to_parent(self, row: ScheduleRow, event: Event, sent_s: float, *, is_due: bool = True) -> AddSchedule:
        """A message of a run to the agent that has started it."""
        config = RunConfig(on_concurrent_turn="steer", agent=_record_of(row).answers_to, custom_metadata=event.custom_metadata)
        message = WaitingMessage(event=encode(event))
        return self._message(row.key, event.invocation_id, sent_s, message, config, Content(), is_due=is_due)

    def ended(self, key: SessionKey) -> None:
        """Wake what waits for the run, and have its end told."""
        self._heard.pop(key, None)
        row = self._records.get(key)
        if row is not None:
            self._undisturbed.discard(_conversation(row.key))
            self._wake(row)

    def _wake(self, row: ScheduleRow) -> None:
        self._due.note_due(int(self._due.now_s()))
        waits = self._waits.pop(row.key, None)
        if waits is not None:
            waits.set()

    def _turn(self, row: ScheduleRow) -> str:
        """The turn of a run that is open; "": none is."""
        log = self._parts.logs.in_memory(_key_of(row))
        return log.open_id() if log is not None else ""

    def _now(self, row: ScheduleRow) -> BackgroundRun:
        """The run as it is now: its record says how a turn of it has ended, and not that it goes on."""
        run = _shown(row)
        return replace(run, status="running", ended_s=0.0, result="", error="") if self._turn(row) else run

    async def _load(self, key: SessionKey) -> None:
        """Read the record of a run before its log is in memory. Raises StoreError."""
        if run_of(key.session) is None:
            return
        logs = self._parts.logs
        for other in [each for each in self._records if logs.in_memory(each) is None and not logs.is_loading(each)]:
            del self._records[other]
            self._words.pop(other, None)
        row = await self._read(key)
        if row is not None:
            self._records[key] = row
            newest = await self._parts.reader.events(key, limit=LAST_EVENTS, newest=True)
            self._words[key] = last_words(stored.raw for stored in reversed(newest))
        else:
            self._records.pop(key, None)

    async def _read(self, key: SessionKey) -> ScheduleRow | None:
        """The record of a run, by its own session. Raises StoreError."""
        if run_of(key.session) is None:
            return None
        row = await self._parts.access.read(self._store.schedule, key.app, key.user, run_name(key.session))
        return row if row is not None and row.plan.run is not None else None

    async def _found(self, key: SessionKey, runs: Sequence[str]) -> list[ScheduleRow]:
        """The runs of a session, in the order in which they were started. Raises RunNotFoundError, StoreError."""
        named = [(key.user, run_name(run_session(key.session, run))) for run in runs]
        rows_named = (await self._parts.access.read(self._store.schedules_named, key.app, named)).values() if runs else ()
        found = [row for row in rows_named if row.key == key]
        if not runs or len(found) < len({*runs}):
            rows = {row.id: row for row in await self._rows(key, key.session) if row.key == key}
            for run in runs:
                if run not in rows:
                    raise RunNotFoundError(run, key.session, did_you_mean(run, rows))
            found = [rows[run] for run in dict.fromkeys(runs) or rows]
        return sorted(found, key=lambda row: _shown(row).started_s)

    async def _rows(self, key: SessionKey, session: str) -> list[ScheduleRow]:
        """The runs below a session. Raises StoreError."""
        return await self._parts.access.read(lambda: self._store.schedules_with(key.app, key.user, runs_prefix(session)))


def _conversation(key: SessionKey) -> SessionKey:
    return SessionKey(key.app, key.user, conversation_of(key.session))


def _changed(row: ScheduleRow, record: StoredRun) -> ScheduleRow:
    return replace(row, raw=encode(replace(row.plan, run=record)))


def _record_of(row: ScheduleRow) -> StoredRun:
    record = row.plan.run
    assert record is not None
    return record


def _shown(row: ScheduleRow) -> BackgroundRun:
    return _record_of(row).run


def _key_of(row: ScheduleRow) -> SessionKey:
    return SessionKey(row.key.app, row.key.user, _session_of(row))


def _first_name(row: ScheduleRow) -> str:
    """The name of the message with which the turn of a run begins."""
    return message_name(_key_of(row), _shown(row).started_s, f"run-{row.id}", is_new=True)


def _session_of(row: ScheduleRow) -> str:
    return _shown(row).run_session_id
