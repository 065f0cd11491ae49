"""The inbox of one run: messages of the user to its turn, which wait in the store until a run reads them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from actors.agent.session_reader import SessionReader
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.refs.session import SessionRef


class RunInbox:
    """Implements `actors.interfaces.access.Inbox`.

    Args:
        session: the Session actor, which has the messages.
        message: what is run.
        reader: learns that the log has them.
        has_messages: some may wait.
    """

    def __init__(self, session: SessionRef, message: p.Invoke, reader: SessionReader, *, has_messages: bool) -> None:
        self._session = session
        self._message = message
        self._reader = reader
        self._news = asyncio.Event()
        self._read: deque[Content] = deque()
        if has_messages:
            self._news.set()

    def notify(self) -> None:
        """Some may wait."""
        self._news.set()

    async def read(self) -> Sequence[Content]:
        """Read all that wait: see Inbox."""
        if not self._news.is_set():
            return ()
        # One that comes while these are read is read by the next call.
        self._news.clear()
        try:
            read = await self._session.ask(p.ReadMessages(turn=self._message.turn, agent=self._message.agent))
        except BaseException:
            self._news.set()
            raise
        # Another run may have read some.
        self._reader.add_foreign()
        return read.contents

    async def next_message(self) -> Content:
        """Wait for the next message: see Inbox."""
        while not self._read:
            await self._news.wait()
            self._read.extend(await self.read())
        return self._read.popleft()
