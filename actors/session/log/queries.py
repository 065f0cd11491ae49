"""What agents and drivers read of a log: from memory as far as it is there, else page by page from the store."""

from __future__ import annotations

from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import USER
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey
from actors.rules.event_buffer import MAX_BYTES
from actors.session.log.event_scan import scan
from actors.session.log.logs import SessionLogs
from actors.session.log.reader import PAGE, PAGE_BYTES, LogReader
from actors.session.log.session_log import SessionLog

TURN_PAGE = 100
"""Events of one page for a subscriber that lags. It keeps as many as it has room for, and reads the rest again."""


class LogQueries:
    """Answers Fetch, ReadLog and ReadTurn."""

    def __init__(self, logs: SessionLogs, reader: LogReader) -> None:
        self._logs = logs
        self._reader = reader

    async def fetch(self, message: p.Fetch) -> p.Fetched:
        """A page of what is new in a log; from its start when it was rewound. Raises SessionNotFoundError, StoreError."""
        log = await self._logs.load(message.key)
        await self._logs.opened(log)
        generation, events, more = log.generation, list[p.StoredEvent](), False
        if not message.state_only:
            after_seq = message.after_seq if message.generation == generation else 0
            events, more = await self._page(log, after_seq, PAGE)
        state = encode(log.merged_state(temp=True))
        return p.Fetched(events=events, generation=generation, more=more, state=state, state_seq=log.state_seq)

    async def read_log(self, message: p.ReadLog) -> p.LogPart:
        """A part of a log. Raises SessionNotFoundError, StoreError."""
        log = await self._logs.load(message.key)
        limit, newest = min(message.limit, PAGE), message.newest_first
        before_seq = log.committed_seq + 1
        if message.before_seq is not None:
            before_seq = min(before_seq, message.before_seq)
        found = await self._reader.page(message.key, message.after_seq, before_seq, limit=limit, newest=newest)
        if newest:
            found.reverse()
        next_seq = found[-1].seq + (-1 if newest else 1) if found else 0
        return p.LogPart(events=found, more=message.after_seq < next_seq < before_seq)

    async def read_turn(self, message: p.ReadTurn) -> p.TurnRead:
        """A page of the agents' events in a turn. Raises SessionNotFoundError, StoreError."""
        return await self.turn_page(message.key, message.invocation_id, message.after_seq)

    async def turn_page(self, key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
        """A page of the agents' events in a turn, or of all in a session, after a position. Raises what `read_turn` raises."""
        log = await self._logs.load(key)
        # A buffer takes no more, and would have the rest read again.
        page, more = await self._page(log, after_seq, TURN_PAGE, MAX_BYTES)
        # An event that is on disk, but not published yet, comes with the news, after the partials of its answer.
        page = [stored for stored in page if stored.seq <= log.committed_seq]
        if invocation_id == WHOLE_SESSION:
            return p.TurnRead(events=page, read_to_seq=page[-1].seq if page else after_seq, more=more)
        scanned = ((stored, scan(stored.raw)) for stored in page)
        events = [stored for stored, event in scanned if event.invocation_id == invocation_id and event.author != USER]
        return p.TurnRead(events=events, read_to_seq=page[-1].seq if page else after_seq, more=more)

    async def _page(
        self, log: SessionLog, after_seq: int, max_events: int, max_bytes: int = PAGE_BYTES
    ) -> tuple[list[p.StoredEvent], bool]:
        """The events after a position, and whether there are more."""
        events = log.events_after(after_seq)
        if events is not None:
            return events, False
        page = await self._reader.page(log.key, after_seq, limit=max_events, max_bytes=max_bytes)
        return page, bool(page) and page[-1].seq < log.committed_seq
