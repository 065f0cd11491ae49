"""The log, the state and the inbox of one run of an agent, which reads no more of them than its code looks at."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from math import inf

from actors.agent.views import AgentView
from actors.errors import FencedError, StoreError
from actors.messages import protocol as p
from actors.messages.codec import decode, encode
from actors.messages.content import Content, Received
from actors.messages.event import USER, Event, decode_event
from actors.messages.json_types import JsonObject, StateDelta
from actors.refs import SessionRef
from actors.rules.prompt.history import History
from actors.rules.routing.branches import tool_root

MAX_STATE_ALONG = 16_384
"""Bytes of state that travel with the message that begins a run: more of it is read by those runs that need it."""

FRESH_S = 1.0
"""A state that was read longer ago does not travel: other sessions may have changed the user's and the app's meanwhile."""


class SessionReader:
    """Keeps what one run knows of its session up to date, and fetches no more than the run's code looks at.

    Args:
        view: what the agent's actor remembers of the session.
        compiles: the compiled log is needed, because a model drives the agent.
        reads_state: the user's code may read the state during the run; of an agent that compiles the log it plays no part.

    Attributes:
        state: session state by prefixed keys, as of the last event.
        state_seq: of a run that compiles no log: all changes up to this place are in `state`, and of later ones its own.
        user_event: the message, decoded; None: nothing has decoded it yet.
    """

    state_seq = 0
    user_event: Event | None = None
    _is_stale = False
    _reading: asyncio.Lock | None = None
    _read_s = -inf

    def __init__(self, session: SessionRef, message: p.Invoke, view: AgentView, *, compiles: bool, reads_state: bool) -> None:
        self._session = session
        self._message = message
        self._view = view
        self._compiles = compiles
        self._reads_state = reads_state
        self.state: JsonObject = {}

    async def begin_run(self) -> None:
        """Bring the state up to date, and the log of an LLM agent."""
        message = self._message
        if self._compiles:
            if message.fresh and self._view.follow(message, self.user_event):
                self.state = self._view.state.value
            else:
                await self._catch_up()
        elif message.fresh:
            self._is_stale = True
            self.state_seq = max(message.state_seq, message.user_event.seq)
            self.state = self._view.state.take(message.turn, message.state, self.state_seq)
            self._read_s = asyncio.get_running_loop().time()
        elif message.state and not message.resume:
            self._is_stale = True
            self.state_seq = message.state_seq
            self.state = self._view.state.take(message.turn, message.state, message.state_seq)
        else:
            if message.resume:
                self._view.state.forget()
            await self.refresh_state(message.state_seq)

    async def view(self, message: Content) -> History:
        """Return the compiled log.

        Args:
            message: the turn's: the calls that it answers have to be in it.
        """
        if self._is_stale:
            await self._catch_up()
        history = self._view.history
        if history.is_cut and history.lacks(response.id for response in message.function_responses()):
            self._view.begin_again()
            await self._catch_up()
        return self._view.history

    async def _catch_up(self) -> None:
        self._is_stale = False
        self._view.begin_reading()
        async for fetched in self._pages(self._view.seq, self._view.generation):
            self._view.take_in(fetched)
        self._view.end_reading()
        if self._view.seq < self._message.user_event.seq:
            # The turn was rewound, or the store has gone back to a copy that is older than the message.
            raise FencedError(self._message.turn.invocation_id, self._message.turn.epoch)
        self.state = self._view.state.value

    async def refresh_state(self, state_seq: int) -> None:
        """Fetch the state, if code may read it, and it changed after it was last read.

        Args:
            state_seq: the newest change that is known.
        """
        self._is_stale = True
        if self._has_state(state_seq) or not self._reads_state:
            return
        turn = self._message.turn
        # What children that end together have changed is read once.
        self._reading = self._reading or asyncio.Lock()
        async with self._reading:
            if not self._has_state(state_seq):
                fetched = await self._session.ask(p.Fetch(key=turn.key, state_only=True))
                self.state = self._view.state.take(turn, fetched.state, fetched.state_seq)
                self.state_seq = fetched.state_seq
                self._read_s = asyncio.get_running_loop().time()

    def _has_state(self, state_seq: int) -> bool:
        """Take the state of the view, if it has all changes up to a place; False if it does not."""
        if not self._view.state.is_current(self._message.turn, state_seq):
            return False
        self.state, self.state_seq = self._view.state.value, max(self.state_seq, self._view.state.seq)
        return True

    def state_along(self) -> tuple[bytes, int]:
        """The state for a run that begins now, and the place up to which it has all changes; b"" where that is better read."""
        state = self._view.state
        age_s = asyncio.get_running_loop().time() - self._read_s
        if age_s > FRESH_S or not state.is_current(self._message.turn, 0):
            return b"", 0
        raw = encode(self.state)
        return (raw, state.seq) if len(raw) <= MAX_STATE_ALONG else (b"", 0)

    def add_own(self, event: Event, size: int, changed: StateDelta, before_seq: int) -> None:
        """Take in an event that the run has stored.

        Args:
            changed: what it changes of the state, `temp:` keys included.
            before_seq: the place of the last change of state before it.
        """
        if changed:
            self.state.update(changed)
        self._view.state.add_own(event.seq, before_seq, changed)
        # Where others wrote in between, or the log was never read, the next `view` fetches what is missing.
        self._is_stale = self._is_stale or not self._view.add_own(event, size)

    def add_foreign(self) -> None:
        """Note that the log has an event that was not taken in: the next `view` fetches it."""
        self._is_stale = True

    async def events(self, after_seq: int) -> AsyncIterator[Event]:
        """Yield the session's events after a place, fetched page by page."""
        async for fetched in self._pages(after_seq, self._message.turn.generation):
            for stored in fetched.events:
                yield decode_event(stored.raw, stored.seq)

    async def all_events(self) -> Sequence[Event]:
        """Return the session's events, oldest first."""
        return [event async for event in self.events(0)]

    async def asked_before(self, branch: str, content: Content) -> p.StoredEvent | None:
        """The event with which the agent on a tool branch was asked the same already, None if it was not."""
        async for fetched in self._pages(self._message.since, self._message.turn.generation):
            for stored in fetched.events:
                event = decode_event(stored.raw, stored.seq)
                is_own = event.invocation_id == self._message.turn.invocation_id
                if is_own and event.branch == branch and event.author == USER and event.content == content:
                    return stored
        return None

    async def tool_answer(self, branch: str, after_seq: int) -> str:
        """Return the text of the last final response on a tool branch, "" without one, and bring the state up to date."""
        text = ""
        async for fetched in self._pages(after_seq, self._message.turn.generation):
            for stored in fetched.events:
                event = decode_event(stored.raw, stored.seq)
                if tool_root(event.branch) == branch and event.author != USER and event.is_final_response():
                    text = event.text or text
            # In place: the contexts of tools that run beside this one read it too.
            self.state.update(decode(fetched.state, dict))
            self.state_seq = max(self.state_seq, fetched.state_seq)
        return text

    async def _pages(self, after_seq: int, generation: str) -> AsyncIterator[p.Fetched]:
        key, more = self._message.turn.key, True
        while more:
            fetched = await self._session.ask(p.Fetch(key=key, after_seq=after_seq, generation=generation))
            yield fetched
            generation, more = fetched.generation, fetched.more
            after_seq = fetched.events[-1].seq if fetched.events else after_seq


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
