"""The inbox of one run: messages to its turn or to its agent, which wait in the store until they are read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from actors.agent.session_reader import SessionReader
from actors.errors import StoreError
from actors.messages import protocol as p
from actors.messages.content import Content, Received
from actors.messages.event import Event
from actors.refs import SessionRef


class RunInbox:
    """Implements `actors.interfaces.access.Inbox`.

    Args:
        reader: learns that the log has them.
        done: the events of a run that was lost: what it has read behind them it is given again.

    Attributes:
        begins_again: the code of the run that was lost begins at its first line: it is given all again that it has read.
        repeats_seq: of code that begins again, the next of its events that the log has: it is given what it had read before that.
            inf: all has been repeated.
    """

    def __init__(
        self, session: SessionRef, message: p.Invoke, reader: SessionReader, done: Callable[[], Sequence[Event]]
    ) -> None:
        self._done, self.begins_again, self.repeats_seq = done, False, inf
        self._again: deque[Event] | None = None if message.resume else deque()
        self._session = session
        self._message = message
        self._reader = reader
        self._news = asyncio.Event()
        self._read: deque[Received] = deque()
        # The last message that it got, and whether others may have been read.
        self._seq, self._is_doubtful = 0, False
        if message.has_messages:
            self._news.set()

    def notify(self) -> None:
        """Some may wait."""
        self._news.set()

    async def read(self) -> Sequence[Received]:
        """Read all that wait: see Inbox."""
        again = await self._read_before()
        if self.repeats_seq < inf:
            return again
        try:
            return [*again, *await self._read_new()]
        except StoreError:
            if not again:
                raise
            return again

    async def _read_before(self) -> list[Received]:
        """Return the messages that the run has read before it was lost, up to where it is now."""
        if self._again is None:
            message = self._message
            done = () if self.begins_again else self._done()
            after_seq = max(message.since, done[-1].seq if done else 0)
            self._again = deque(
                [
                    event
                    async for event in self._reader.events(after_seq)
                    if event.invocation_id == message.turn.invocation_id
                    and event.reader() == message.agent
                    and event.content is not None
                ]
            )
            self._seq = self._again[-1].seq if self._again else 0
        found: list[Received] = []
        while self._again and self._again[0].seq < self.repeats_seq:
            found.append(self._again.popleft().received())
        return found

    async def _read_new(self, most: int = 0) -> Sequence[Received]:
        if not self._news.is_set():
            return ()
        # One that comes while these are read is read by the next call.
        self._news.clear()
        message = self._message
        request = p.ReadMessages(
            turn=message.turn,
            agent=message.agent,
            branch=message.branch,
            again=self._is_doubtful,
            after_seq=self._seq,
            most=most,
            notes=message.notes,
        )
        try:
            read = await self._session.ask(request)
        except BaseException:
            # They may have been read all the same.
            self._is_doubtful = True
            self._news.set()
            raise
        self._is_doubtful, self._seq = False, read.last_seq or self._seq
        if read.more:
            self._news.set()
        # Another run may have read some.
        self._reader.add_foreign()
        return read.messages

    async def next_message(self) -> Received:
        """Wait for the next message: see Inbox."""
        if not self._read:
            # No more than it is given: those behind it wait for its code, or for the next run.
            self._read.extend(await self._next(most=1))
        return self._read.popleft()

    async def wait(self) -> Sequence[Received]:
        """Wait for messages: see Inbox."""
        return await self._next()

    async def _next(self, most: int = 0) -> Sequence[Received]:
        read: Sequence[Received] = await self._read_before()
        while not read:
            await self._news.wait()
            read = await self._read_new(most)
        return read

    async def send(self, agent: str, content: Content, message_id: str) -> None:
        """Send another agent a message: see Inbox."""
        message = self._message
        sent = p.SendMessage(turn=message.turn, sender=message.agent, agent=agent, id=message_id, content=content)
        await self._session.ask(sent)
