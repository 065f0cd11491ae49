"""Finding turns: the one that a fencing token names, the record of any, and the one that a message is for."""

from __future__ import annotations

from actors.errors import FencedError, SessionNotFoundError, UnknownFunctionCallError
from actors.interfaces.records import TurnRow
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.session.log.open_turn import OpenTurn
from actors.session.log.session_log import SessionLog
from actors.session.turns.parts import SessionParts


class TurnLookup:
    """Answers FindTurn, and finds turns for the other handlers."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader

    async def find_turn(self, message: p.FindTurn) -> p.TurnFound:
        """Tell which agents could take a message. Nothing is stored, not even a session that would be created.

        Raises:
            SessionNotFoundError: there is no session, and it is not to be created.
            UnknownFunctionCallError: the message answers a call that the log has not.
            StoreError: the store cannot be read.
        """
        key = message.key
        log = await self._logs.find(key)
        if log is None:
            if not message.auto_create:
                raise SessionNotFoundError(key.app, key.user, key.session)
            if message.call_ids:
                raise UnknownFunctionCallError(message.call_ids[0], key.session)
            return p.TurnFound(authors=())
        calls = await self._reader.calls(key, message.call_ids)
        if calls:
            return p.TurnFound(
                authors=self._parts.deciding(log.authors()), caller=calls[0].author, invocation_id=calls[0].invocation_id
            )
        row = await self.row(log, message.invocation_id) if message.invocation_id else None
        return p.TurnFound(
            authors=self._parts.deciding(log.authors()),
            is_there=row is not None or log.queue.has(message.invocation_id),
            agent=row.agent if row is not None else "",
        )

    async def current(self, turn: p.TurnRef) -> tuple[SessionLog, OpenTurn]:
        """The session and the turn that a fencing token names.

        Raises:
            FencedError: the turn is not open, or the token is out of date.
            StoreError: the log had to be loaded, and could not be.
        """
        log = self._logs.in_memory(turn.key)
        if log is None or log.is_stale:
            await self._logs.find(turn.key)
        return self.current_in_memory(turn)

    def current_in_memory(self, turn: p.TurnRef) -> tuple[SessionLog, OpenTurn]:
        """The same, without loading a log. Raises FencedError."""
        log = self._logs.in_memory(turn.key)
        if log is None or log.turn is None or not log.is_current(turn):
            raise FencedError(turn.invocation_id, turn.epoch)
        return log, log.turn

    async def log_and_row(self, key: SessionKey, invocation_id: str) -> tuple[SessionLog, TurnRow | None]:
        """The log of a session, and a turn's record as of the same moment: see `row`. Raises SessionNotFoundError, StoreError."""
        while True:
            log = await self._logs.load(key)
            row = await self.row(log, invocation_id)
            # The log may have been evicted while the store was asked.
            if self._logs.in_memory(key) is log:
                return log, row

    async def row(self, log: SessionLog, invocation_id: str) -> TurnRow | None:
        """The record of a turn that is open or has ended; None for one in the queue, or an unknown one. Raises StoreError."""
        row = log.open_row(invocation_id) or await self._reader.turn(log.key, invocation_id)
        # It may have begun while the store was asked.
        return log.open_row(invocation_id) or row
