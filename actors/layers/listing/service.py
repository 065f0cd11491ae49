"""Turns as data: where each of them is, and what it waits for."""

from __future__ import annotations

import msgspec

from actors.actor import Handlers
from actors.errors import InvocationNotFoundError
from actors.interfaces.stores import TurnFilter, TurnRow
from actors.layers.listing.messages import (
    ANY_TURN,
    TURN_STATES,
    CountTurns,
    GetRunningTurn,
    GetTurn,
    ListPending,
    ListTurns,
    LiveRun,
    PendingCall,
    PendingReply,
    RunningTurnReply,
    TurnsCounted,
    TurnsReply,
)
from actors.layers.listing.rules import fits, open_calls
from actors.messages import protocol as p
from actors.messages.event import Event, decode_event
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from actors.runner.running_turn import Run
from actors.runner.service import RunnerParts, RunnerService
from actors.session.log.event_scan import scan
from actors.session.log.reader import LogReader
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts, SessionService
from actors.session.turns.lookup import TurnLookup

PAGE = 200
"""Events that are read at once."""

MAX_LISTED = 1_000
"""Turns in one reply."""

MAX_READ = 200
"""Turns whose events are read for one reply, where a text is looked for."""

MAX_SCANNED = 10_000
"""Records of turns that are looked at for one reply."""


class TurnListing(SessionService):
    """Answers ListTurns, CountTurns, GetTurn and ListPending."""

    def __init__(self, parts: SessionParts) -> None:
        self._logs = parts.logs
        self._reader = parts.reader
        self._lookup = TurnLookup(parts)

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            ListTurns: self.list_turns,
            CountTurns: self.count_turns,
            GetTurn: self.get_turn,
            ListPending: self.list_pending,
        }

    async def list_turns(self, message: ListTurns) -> TurnsReply:
        """List turns: those in line, unless it is a later page, then those of the store. Raises StoreError."""
        limit = min(message.limit, MAX_LISTED)
        turns = await self._in_line(message) if message.state in ("", "waiting") and message.before is None else []
        said = TextSearch(message.match.text) if message.match.text else None
        turns = [turn for turn in turns if fits(turn, message.match)] if said is None else []
        if message.state == "waiting" or len(turns) >= limit:
            return TurnsReply(turns=turns[:limit])
        listed = {(turn.user_id, turn.session_id, turn.invocation_id) for turn in turns}
        before = message.before
        # Where all fit, no more are read than are wanted.
        count = limit if message.match == ANY_TURN else MAX_LISTED
        left = MAX_READ
        for _ in range(MAX_SCANNED // MAX_LISTED):
            rows = await self._reader.turns(msgspec.structs.replace(_filter(message, message.state, count), before=before))
            # The newest come first.
            recent = [(key, row) for key, row in rows if row.begun_s >= message.since_s]
            for key, row in recent:
                turn = self._info(key, row)
                if fits(turn, message.match) and (turn.user_id, turn.session_id, turn.invocation_id) not in listed:
                    if said is not None and not left:
                        return TurnsReply(turns=turns, next=before)
                    left -= 1
                    if said is None or await said.is_in(self._reader, key, turn):
                        turns.append(turn)
                if len(turns) >= limit:
                    return TurnsReply(turns=turns)
                before = (row.begun_s, row.invocation_id)
            if len(recent) < count:
                return TurnsReply(turns=turns)
        return TurnsReply(turns=turns, next=before)

    async def count_turns(self, message: CountTurns) -> TurnsCounted:
        """Count the turns that have not ended. Raises StoreError."""
        in_line = await self._in_line(ListTurns(app=message.app))
        continued = sum(turn.first_seq > 0 for turn in in_line)
        if message.in_line_only:
            return TurnsCounted(in_line=len(in_line), continued=continued)
        running = await self._reader.count_turns(message.app, "running")
        paused = await self._reader.count_turns(message.app, "paused")
        return TurnsCounted(in_line=len(in_line), continued=continued, running=running, paused=paused)

    async def _in_line(self, message: ListTurns) -> list[TurnInfo]:
        """The turns in line, each once; without one that runs, and for which one more answer waits."""
        wanted = _filter(message, "waiting", message.limit)
        in_line = [
            (log, invocation_id)
            for log in self._logs.all_in_memory(in_use=True)
            if wanted.concerns(log.key)
            for invocation_id in dict.fromkeys(waiter.invocation_id for waiter in log.queue)
        ]
        turns = []
        for log, invocation_id in in_line:
            row = None if log.queue.has_new(invocation_id) else await self._lookup.row(log, invocation_id)
            if log.queue.has(invocation_id):
                turns.append(self._waiting(log, invocation_id, row))
        return [turn for turn in turns if turn.state == "waiting"]

    async def get_turn(self, message: GetTurn) -> TurnsReply:
        """Tell where a turn is. Raises InvocationNotFoundError, SessionNotFoundError, StoreError."""
        log, row = await self._lookup.log_and_row(message.key, message.invocation_id)
        if log.queue.has(message.invocation_id):
            return TurnsReply(turns=[self._waiting(log, message.invocation_id, row)])
        if row is None:
            raise InvocationNotFoundError(message.invocation_id, message.key.session)
        return TurnsReply(turns=[self._info(message.key, row)])

    def _waiting(self, log: SessionLog, invocation_id: str, row: TurnRow | None) -> TurnInfo:
        """A turn in line. One with a record has begun before, and its answer waits; it may even run, and get one more answer."""
        if row is None:
            key = log.key
            return TurnInfo(user_id=key.user, session_id=key.session, invocation_id=invocation_id, state="waiting")
        turn = self._info(log.key, row)
        return turn if turn.state == "running" else msgspec.structs.replace(turn, state="waiting")

    def _info(self, key: SessionKey, row: TurnRow) -> TurnInfo:
        log = self._logs.in_memory(key)
        open_row = log.open_row(row.invocation_id) if log is not None else None
        outcome = p.decode_outcome(row.outcome) if row.outcome else None
        agent, last_seq = row.agent, row.last_seq
        if log is not None and log.turn is not None and open_row is not None:
            turn, row, last_seq = log.turn, open_row, log.committed_seq
            agent = _speaker(log) if last_seq > row.opened_seq else ""
        else:
            turn = self._reader.turn_of(row)
        error = ""
        if isinstance(outcome, p.Failed):
            agent = outcome.agent or agent
            error = f"{outcome.error_code}: {outcome.error_message}"
        elif isinstance(outcome, p.Paused):
            agent = outcome.agent or agent
        elif isinstance(outcome, p.Cancelled) and outcome.timeout_s:
            error = f"it took longer than its timeout of {outcome.timeout_s} s"
        info = TurnInfo(
            user_id=key.user,
            session_id=key.session,
            invocation_id=row.invocation_id,
            state=next((state for state in TURN_STATES if state == row.status), "running"),
            agent=agent,
            first_seq=row.first_seq,
            last_seq=last_seq,
            epoch=row.epoch,
            begun_s=row.begun_s,
            ended_s=row.ended_s,
            error=error,
            version=row.version,
        )
        return turn.describe(info)

    async def list_pending(self, message: ListPending) -> PendingReply:
        """List the calls at which turns wait. Raises SessionNotFoundError for a session that is not there, StoreError."""
        if message.session is None:
            limit = min(message.limit, MAX_LISTED)
            rows = await self._reader.turns(_filter(message, "paused", limit))
            last = rows[-1][1] if len(rows) == limit else None
            found = [(row.begun_s, call) for key, row in rows for call in await self._pending(key, row, row.last_seq)]
            return PendingReply(
                calls=[call for _, call in found],
                begun_s=[begun_s for begun_s, _ in found],
                next=(last.begun_s, last.invocation_id) if last is not None else None,
            )
        key = SessionKey(message.app, message.user or "", message.session)
        log = await self._logs.load(key)
        if message.invocation_id:
            row = await self._reader.turn(key, message.invocation_id)
            rows = [(key, row)] if row is not None and row.status == "paused" else []
        else:
            rows = await self._reader.turns(_filter(message, "paused", MAX_LISTED))
        # An answer may have opened a turn while the store was asked: it is looked at here, and once.
        waiting = [(row, row.last_seq) for _, row in rows if log.open_row(row.invocation_id) is None]
        if message.with_open and log.turn is not None and message.invocation_id in ("", log.turn.row.invocation_id):
            waiting.insert(0, (log.turn.row, log.committed_seq))
        return PendingReply(calls=[call for row, last_seq in waiting for call in await self._pending(key, row, last_seq)])

    async def _pending(self, key: SessionKey, row: TurnRow, last_seq: int) -> list[PendingCall]:
        """The open long-running calls of a turn whose events stand between its first and `last_seq`."""
        events: list[Event] = []
        after_seq = row.first_seq - 1
        while page := await self._reader.page(key, after_seq, last_seq + 1, limit=MAX_LISTED):
            after_seq = page[-1].seq
            of_turn = (stored for stored in page if scan(stored.raw).invocation_id == row.invocation_id)
            events += [decode_event(stored.raw, stored.seq) for stored in of_turn]
        return [
            PendingCall(
                user_id=key.user,
                session_id=key.session,
                invocation_id=row.invocation_id,
                call_id=call.id or "",
                name=call.name,
                args=call.args,
                agent=event.author,
                is_confirmation=is_confirmation,
                question=question,
                seq=event.seq,
                asked_s=event.timestamp,
            )
            for event, call, question, is_confirmation in open_calls(events)
        ]


def _filter(message: ListTurns | ListPending, status: str, limit: int) -> TurnFilter:
    return TurnFilter(
        app=message.app, user=message.user, session=message.session, status=status, limit=limit, before=message.before
    )


def _speaker(log: SessionLog) -> str:
    return next(log.authors(), "")


class TextSearch:
    """A text that is looked for, in small or capital letters.

    Args:
        text: the text; not empty.
    """

    def __init__(self, text: str) -> None:
        self._text = text.casefold()
        # What its letters may be in other cases is more than these only beyond ASCII.
        self._bytes = text.lower().encode() if text.isascii() else b""

    async def is_in(self, reader: LogReader, key: SessionKey, turn: TurnInfo) -> bool:
        """Whether the user or an agent has said it in a turn, in a text that is no thought. Raises StoreError."""
        after_seq, end = turn.first_seq - 1, turn.last_seq + 1
        while after_seq < turn.last_seq and (page := await reader.page(key, after_seq, end, limit=PAGE)):
            after_seq = page[-1].seq
            if any(self._is_said(stored.raw, turn.invocation_id) for stored in page):
                return True
        return False

    def _is_said(self, raw: bytes, invocation_id: str) -> bool:
        if self._bytes and self._bytes not in raw.lower():
            return False
        return scan(raw).invocation_id == invocation_id and self._text in decode_event(raw, 0).text.casefold()


class RunningTurns(RunnerService):
    """Answers GetRunningTurn."""

    def __init__(self, parts: RunnerParts) -> None:
        self._table = parts.table

    def handlers(self) -> Handlers:
        """Its message."""
        return {GetRunningTurn: self.get_running_turn}

    async def get_running_turn(self, message: GetRunningTurn) -> RunningTurnReply:
        """Tell which runs of a turn are under way."""
        turn = self._table.get((message.key, message.invocation_id))
        if turn is None:
            return RunningTurnReply()
        runs = [_live(run) for run in turn.runs.all() if run.stopped is None]
        return RunningTurnReply(runs=runs, transfers=len(turn.transfers), llm_calls=turn.calls.used)


def _live(run: Run) -> LiveRun:
    return LiveRun(
        agent=run.agent,
        branch=run.branch or "",
        asked_by=run.parent.agent if run.parent is not None else "",
        begun_s=run.begun_s,
        has_process=run.link is not None,
    )
