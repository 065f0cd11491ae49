"""The Session actor: the one writer and reader of every log, and the keeper of the parent map.

It numbers events and stores them, folds state, lets one turn of a session run at a time, and tells drivers what happens. What
it acknowledges is on disk; nobody sees an event that is not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from actors.actor import Actor, Handler, Ref
from actors.errors import (
    FencedError,
    InvocationNotFoundError,
    SessionBusyError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    TurnCancelledError,
    TurnLostError,
    UnknownFunctionCallError,
)
from actors.followers import Followers
from actors.hotlog import EventScan, HotLog, OpenTurn, Waiter, new_event, scan
from actors.interfaces.stores import CallRow, HideEvents, MemoryStore, PutState, RemoveSession, SessionStore, TurnRow, Write
from actors.logbook import LogBook
from actors.memory import Memory, entry_of
from actors.messages import protocol as p
from actors.messages.content import Content, FunctionResponse, Part
from actors.messages.event import USER, Event, EventActions, new_event_id, new_invocation_id, now_s
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.messages.wire import decode, encode
from actors.rules import state as scopes

logger = logging.getLogger(__name__)

PAGE = 1_000
"""Events that are read from the store at once."""

TURN_PAGE = 500
"""The same for subscribers that are late; what they have no room for is read again."""


class SessionRef(Ref):
    """A client of the Session actor."""

    async def topology(self) -> Topology:
        """The parent map."""
        return (await self._ask(p.GetTopology(), p.TopologyIs)).topology

    async def find_turn(self, message: p.FindTurn) -> p.TurnFound:
        """Who could take a message. Raises SessionNotFoundError, UnknownFunctionCallError."""
        return await self._ask(message, p.TurnFound)

    async def open_turn(self, message: p.OpenTurn) -> p.TurnOpened:
        """Begin a turn, once none runs. Raises SessionNotFoundError, SessionBusyError, UnknownFunctionCallError, StoreError."""
        return await self._ask(message, p.TurnOpened)

    async def close_turn(self, message: p.CloseTurn) -> None:
        """End a turn. Raises FencedError, StoreError."""
        await self._ask(message, p.Done)

    async def cancel_turn(self, message: p.CancelTurn) -> None:
        """Take a turn that has not begun out of the line."""
        await self._ask(message, p.Done)

    async def append(self, message: p.Append) -> int:
        """Store events and return the place of the first. Raises FencedError, StoreError."""
        return (await self._ask(message, p.Appended)).first_seq

    async def tell_partial(self, message: p.TellPartial) -> None:
        """Deliver pieces of an answer."""
        await self._ask(message, p.Done)

    async def fetch(self, message: p.Fetch) -> p.Fetched:
        """What is new in a log. Raises SessionNotFoundError."""
        return await self._ask(message, p.Fetched)

    async def subscribe(self, message: p.Subscribe) -> None:
        """Follow a turn. Raises InvocationNotFoundError, SessionNotFoundError."""
        await self._ask(message, p.Done)

    async def poll(self, message: p.Poll) -> p.News:
        """Wait for news."""
        return await self._ask(message, p.News)

    async def read_turn(self, message: p.ReadTurn) -> p.TurnRead:
        """What a turn's agents have said, a page of it. Raises SessionNotFoundError, StoreError."""
        return await self._ask(message, p.TurnRead)

    async def unsubscribe(self, message: p.Unsubscribe) -> None:
        """Go away."""
        await self._ask(message, p.Done)

    async def create_session(self, message: p.CreateSessionRequest) -> p.SessionIs:
        """Create a session. Raises SessionExistsError, StoreError."""
        return await self._ask(message, p.SessionIs)

    async def get_session(self, message: p.GetSessionRequest) -> p.SessionIs:
        """Read a session, None when there is none."""
        return await self._ask(message, p.SessionIs)

    async def list_sessions(self, message: p.ListSessionsRequest) -> p.SessionsAre:
        """List sessions, the one written last first."""
        return await self._ask(message, p.SessionsAre)

    async def delete_session(self, message: p.DeleteSessionRequest) -> None:
        """Delete a session. Raises SessionBusyError."""
        await self._ask(message, p.Done)

    async def append_event(self, message: p.AppendEventRequest) -> int:
        """Add an event outside of turns and return its place. Raises SessionNotFoundError, SessionBusyError."""
        return (await self._ask(message, p.Appended)).first_seq

    async def rewind(self, message: p.RewindRequest) -> None:
        """See a session as before a turn. Raises InvocationNotFoundError, SessionNotFoundError, SessionBusyError."""
        await self._ask(message, p.Done)

    async def remember(self, message: p.RememberSession) -> None:
        """Put a session into memory. Raises SessionNotFoundError, NoMemoryError, StoreError."""
        await self._ask(message, p.Done)

    async def forget(self, message: p.ForgetSession) -> None:
        """Take a session out of memory. Raises NoMemoryError, StoreError."""
        await self._ask(message, p.Done)

    async def search_memory(self, message: p.SearchMemory) -> list[MemoryEntry]:
        """What is remembered of a user, the best first. Raises NoMemoryError, StoreError."""
        return list((await self._ask(message, p.MemoriesAre)).entries)

    async def statistics(self) -> p.Statistics:
        """What it has done."""
        return await self._ask(p.GetStatistics(), p.Statistics)

    async def stop(self) -> None:
        """Write what waits, close the store."""
        await self._ask(p.Stop(), p.Done)


class SessionActor(Actor):
    """See the head of this file.

    Args:
        store: where logs last.
        topology: the parent map.
        name: for messages and statistics.
        clock: seconds that only go forward; by default those of the event loop.
        memory: where memory lasts; None: the app has none.
        store_timeout_s: how long either store may be away before what needs it fails with StoreUnavailableError.
    """

    def __init__(
        self,
        store: SessionStore,
        topology: Topology,
        name: str = "session",
        clock: Callable[[], float] | None = None,
        memory: MemoryStore | None = None,
        store_timeout_s: float = 30.0,
    ) -> None:
        super().__init__(name)
        self._topology = topology
        self._book = LogBook(store, store_timeout_s)
        self._store = store
        self._memory = Memory(memory, store_timeout_s)
        self._followers = Followers(self._said, clock)
        self._counts = {"turns": 0, "events": 0, "partials": 0, "polls": 0}

    def handlers(self) -> Mapping[type[p.Message], Handler]:
        """The messages that the Session actor takes."""
        return {
            p.GetTopology: self.get_topology,
            p.FindTurn: self.find_turn,
            p.OpenTurn: self.open_turn,
            p.CloseTurn: self.close_turn,
            p.CancelTurn: self.cancel_turn,
            p.Append: self.append,
            p.TellPartial: self.tell_partial,
            p.Fetch: self.fetch,
            p.Subscribe: self.subscribe,
            p.Poll: self.poll,
            p.ReadTurn: self.read_turn,
            p.Unsubscribe: self.unsubscribe,
            p.CreateSessionRequest: self.create_session,
            p.GetSessionRequest: self.get_session,
            p.ListSessionsRequest: self.list_sessions,
            p.DeleteSessionRequest: self.delete_session,
            p.AppendEventRequest: self.append_event,
            p.RewindRequest: self.rewind,
            p.RememberSession: self.remember,
            p.ForgetSession: self.forget,
            p.SearchMemory: self.search_memory,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    # ------------------------------------------------------------------------------------------------- turns
    async def get_topology(self, _: p.GetTopology) -> p.TopologyIs:
        """Tell the parent map."""
        return p.TopologyIs(topology=self._topology)

    async def find_turn(self, message: p.FindTurn) -> p.TurnFound:
        """Tell who could take a message; nothing is stored, not even a session that would be created."""
        key = message.key
        hot = await self._book.find(key)
        if hot is None:
            if not message.auto_create:
                raise SessionNotFoundError(key.app, key.user, key.session)
            if message.call_ids:
                raise UnknownFunctionCallError(message.call_ids[0], key.session)
            return p.TurnFound(authors=())
        calls = await self._calls(key, message.call_ids)
        if not calls:
            row = await self._turn_row(hot, message.invocation_id) if message.invocation_id else None
            is_there = row is not None or hot.waits(message.invocation_id)
            return p.TurnFound(authors=hot.authors(), is_there=is_there, agent=row.agent if row is not None else "")
        return p.TurnFound(authors=hot.authors(), caller=calls[0].author, invocation_id=calls[0].invocation_id)

    async def open_turn(self, message: p.OpenTurn) -> p.TurnOpened:
        """Store the user's event and let the turn run, once no other turn of the session does."""
        hot = await self._book.take_up(message.key, auto_create=message.auto_create)
        can_join = message.repeatable and not message.answers
        if can_join and (joined := await self._join(hot, message)) is not None:
            return joined
        has_waited = hot.is_taken
        if has_waited:
            if message.on_concurrent_turn == "reject":
                raise SessionBusyError(message.key.session, hot.busy_with())
            if message.on_concurrent_turn == "interrupt" and hot.turn is not None:
                return p.TurnOpened(interrupted=hot.busy_with())
            waiter = Waiter(message.invocation_id)
            hot.queue.append(waiter)
            await waiter.admitted
        hot.is_taken = True
        try:
            # While it waited, another request of the same id may have been before it.
            if has_waited and can_join and (joined := await self._join(hot, message)) is not None:
                hot.admit_next()
                return joined
            if await self._book.take_up(message.key) is not hot:
                # Deleted and made anew meanwhile.
                raise SessionNotFoundError(message.key.app, message.key.user, message.key.session)
            if message.answers:
                return await self._go_on(hot, message)
            return await self._begin(hot, message, hot.head_seq + 1)
        except BaseException as error:
            told = str(error) or type(error).__name__
            never_ran = p.Failed(error_code=type(error).__name__, error_message=f"the turn could not begin: {told}")
            if isinstance(error, StoreUnavailableError) and hot.turn is not None:
                # It may have begun in the store.
                self._book.owe(hot.put_turn(_ended(hot.turn, "", never_ran)))
            hot.turn = None
            hot.admit_next()
            self._followers.tell_end(message.key, message.invocation_id, never_ran)
            raise

    async def _join(self, hot: HotLog, message: p.OpenTurn) -> p.TurnOpened | None:
        """The reply to a turn that is there already, or None."""
        row = hot.runs(message.invocation_id)
        if row is None and not hot.waits(message.invocation_id):
            row = await self._turn_row(hot, message.invocation_id)
            # The same turn may have got in line meanwhile: two drivers may ask for it at the same time.
            if row is None and not hot.waits(message.invocation_id):
                return None
        await self._follow(hot, message.invocation_id, message.subscriber, row.first_seq if row is not None else hot.head_seq)
        return p.TurnOpened(attached=True, agent=row.agent if row is not None else "")

    async def _go_on(self, hot: HotLog, message: p.OpenTurn) -> p.TurnOpened:
        """Take up the turn whose questions the message answers."""
        # What was found when the message was checked may have been rewound while it waited in line.
        calls = await self._calls(message.key, message.answers)
        before = await self._book.read(self._store.turn, message.key, message.invocation_id)
        first_seq = before.first_seq if before is not None else min(call.seq for call in calls)
        so_far = OpenTurn(before or _unknown_turn(message.invocation_id, first_seq), {})
        await self._recall(hot, so_far)
        callers = tuple(so_far.open_calls[call_id].author for call_id in message.answers if call_id in so_far.open_calls)
        if so_far.row.status in _OVER:
            # Who asked hears the answer, but the workflow around it has ended, or failed, without it.
            callers = ()
        opened = await self._begin(hot, message, first_seq, so_far)
        return msgspec.structs.replace(opened, callers=callers, progress=so_far.progress)

    async def _recall(self, hot: HotLog, so_far: OpenTurn) -> None:
        """Read again what a turn has left open."""
        after_seq = so_far.row.first_seq - 1
        while events := await self._page(hot.key, after_seq):
            for stored in events:
                event = scan(stored.raw)
                if event.invocation_id == so_far.row.invocation_id:
                    so_far.note(event, stored.seq)
            after_seq = events[-1].seq

    async def _begin(self, hot: HotLog, message: p.OpenTurn, first_seq: int, so_far: OpenTurn | None = None) -> p.TurnOpened:
        row = TurnRow(
            invocation_id=message.invocation_id,
            status="running",
            epoch=so_far.row.epoch + 1 if so_far is not None else 1,
            first_seq=first_seq,
            opened_seq=hot.head_seq + 1,
        )
        temp = decode(so_far.row.temp, dict) if so_far is not None and so_far.row.temp else {}
        turn = hot.open(row, {**temp, **scopes.only_temp(message.state_delta)})
        if so_far is not None:
            turn.open_calls.update(so_far.open_calls)
        await self._add(hot, [(message.event, scan(message.event))], [hot.put_turn(turn.record())])
        # Agents speak only when this has been answered, so the caller misses nothing; and hears nothing of a turn that never was.
        self._followers.add(message.subscriber, message.key, message.invocation_id, row.opened_seq)
        self._counts["turns"] += 1
        return p.TurnOpened(
            epoch=row.epoch,
            seq=row.opened_seq,
            generation=hot.generation,
            authors=hot.authors(),
            state=encode(hot.merged_state()),
        )

    async def close_turn(self, message: p.CloseTurn) -> p.Done:
        """Write how the turn ended, tell its followers, and let the next one run."""
        hot, running = self._running(message.turn)
        try:
            hot, running = await self._current(message.turn)
            if isinstance(message.outcome, p.Cancelled):
                await self._answer_open_calls(hot, running)
        except StoreError as error:
            # The turn has to end all the same, or the session would be busy for ever.
            logger.error("turn %s ends without what it leaves open being settled: %s", running.row.invocation_id, error)
            with suppress(StoreError):
                await self._current(message.turn)
        running.is_ending = True
        ended = hot.put_turn(_ended(running, message.agent, message.outcome))
        try:
            await self._book.write(hot, [ended])
        except StoreError:
            self._book.owe(ended)
            raise
        finally:
            # Also when the record could not be written: whoever waits for the turn has to be told, and the next one let in.
            self._followers.tell_end(hot.key, running.row.invocation_id, message.outcome)
            hot.turn = None
            hot.admit_next()
        return p.Done()

    async def _answer_open_calls(self, hot: HotLog, running: OpenTurn) -> None:
        """Calls that a cancelled turn leaves open get an answer, so that no model ever sees them without one."""
        by_author: dict[tuple[str, str | None], list[Part]] = {}
        for call_id, call in running.open_calls.items():
            response = FunctionResponse(id=call_id, name=call.name, response={"error": "cancelled"})
            by_author.setdefault((call.author, call.branch), []).append(Part(function_response=response))
        for (author, branch), parts in by_author.items():
            content = Content(role=USER, parts=parts)
            await self._add(hot, [_made_here(running.row.invocation_id, author, branch=branch, content=content)], [])

    async def cancel_turn(self, message: p.CancelTurn) -> p.Done:
        """Take a turn out of the line."""
        hot = self._book.in_memory(message.key)
        for waiter in hot.queue if hot is not None else ():
            if waiter.invocation_id == message.invocation_id and not waiter.admitted.done():
                waiter.admitted.set_exception(TurnCancelledError(message.invocation_id))
                self._followers.tell_end(message.key, message.invocation_id, p.Cancelled())
        return p.Done()

    # ------------------------------------------------------------------------------------------------- events
    async def append(self, message: p.Append) -> p.Appended:
        """Store events of the running turn. What is stored already, because it was sent again, is not stored twice."""
        hot, running = await self._current(message.turn)
        events = [(raw, scan(raw)) for raw in message.events]
        if events and events[0][1].id in running.stored:
            # It may be on its way to the disk still, and may not arrive there.
            await self._book.flush()
            hot, running = await self._current(message.turn)
            if events[0][1].id in running.stored:
                return p.Appended(first_seq=running.stored[events[0][1].id])
        writes: list[Write] = []
        if message.temp:
            running.temp.update(message.temp)
            writes.append(hot.put_turn(running.record()))
        if message.outcome is None:
            return p.Appended(first_seq=await self._add(hot, events, writes))
        running.is_ending = True
        try:
            ended = hot.put_turn(_ended(running, message.selected, message.outcome))
            return p.Appended(first_seq=await self._add(hot, events, [*writes, ended], message.outcome))
        except Exception:
            running.is_ending = False
            raise

    async def _add(
        self,
        hot: HotLog,
        events: Sequence[tuple[bytes, EventScan]],
        writes: Sequence[Write],
        outcome: p.AnyOutcome | None = None,
    ) -> int:
        """Store events with what has to be written beside them, and tell the turn's followers; with `outcome` it ends there."""

        def show(stored: Sequence[p.StoredEvent]) -> None:
            for place, (_, event) in zip(stored, events, strict=True):
                if event.author != USER:
                    self._followers.tell(hot.key, event.invocation_id, [place])
            if outcome is not None:
                # In the same step as the last event, so that both travel together; and whoever asks for the turn from now on
                # is told of its end by the store.
                self._followers.tell_end(hot.key, events[-1][1].invocation_id, outcome)
                hot.turn = None
                hot.admit_next()

        self._counts["events"] += len(events)
        return await self._book.add(hot, events, writes, show)

    async def tell_partial(self, message: p.TellPartial) -> p.Done:
        """Pass pieces of an answer on."""
        await self._current(message.turn)
        self._counts["partials"] += len(message.events)
        pieces = [p.StoredEvent(0, raw) for raw in message.events]
        self._followers.tell(message.turn.key, message.turn.invocation_id, pieces)
        return p.Done()

    async def fetch(self, message: p.Fetch) -> p.Fetched:
        """Tell what is new in a log; from its start when it was rewound meanwhile."""
        hot = await self._book.take_up(message.key)
        if message.state_only:
            return p.Fetched(events=(), generation=hot.generation, state=encode(hot.merged_state()))
        generation = hot.generation
        after_seq = message.after_seq if message.generation == generation else 0
        events = hot.behind(after_seq)
        more = False
        if events is None:
            events = await self._page(message.key, after_seq)
            more = len(events) == PAGE
        return p.Fetched(events=events, generation=generation, more=more, state=encode(hot.merged_state()))

    async def _page(self, key: SessionKey, after_seq: int, limit: int = PAGE) -> list[p.StoredEvent]:
        rows = await self._book.read(lambda: self._store.events(key, after_seq=after_seq, limit=limit))
        return [p.StoredEvent(seq, raw) for seq, raw in rows]

    # ------------------------------------------------------------------------------------------------- followers
    async def subscribe(self, message: p.Subscribe) -> p.Done:
        """Tell a subscriber of a turn's events behind a place, those in the log first."""
        hot = await self._book.take_up(message.key)
        row = await self._turn_row(hot, message.invocation_id)
        if row is None and not hot.waits(message.invocation_id):
            raise InvocationNotFoundError(message.invocation_id, message.key.session)
        first_seq = row.first_seq if row is not None else hot.head_seq
        await self._follow(hot, message.invocation_id, message.subscriber, max(first_seq, message.after_seq))
        return p.Done()

    async def _turn_row(self, hot: HotLog, invocation_id: str) -> TurnRow | None:
        """The record of a turn that runs or has ended; None for one that waits in line, or that is not known."""
        row = hot.runs(invocation_id)
        if row is None:
            await self._book.flush()
            row = await self._book.read(self._store.turn, hot.key, invocation_id)
        # It may have begun meanwhile.
        return hot.runs(invocation_id) or row

    async def _follow(self, hot: HotLog, invocation_id: str, subscriber: str, after_seq: int) -> None:
        if not subscriber:
            return
        if hot.waits(invocation_id) or hot.runs(invocation_id) is not None:
            self._followers.add(subscriber, hot.key, invocation_id, after_seq, hot.settled_seq)
            return
        await self._book.flush()
        row = await self._book.read(self._store.turn, hot.key, invocation_id)
        if row is not None:
            self._followers.add_late(subscriber, hot.key, invocation_id, after_seq, hot.settled_seq, _outcome_of(row))

    async def read_turn(self, message: p.ReadTurn) -> p.TurnRead:
        """Tell what a turn's agents have said."""
        return await self._said(message.key, message.invocation_id, message.after_seq)

    async def _said(self, key: SessionKey, invocation_id: str, after_seq: int) -> p.TurnRead:
        """A page of what a turn's agents have said behind a place."""
        hot = await self._book.take_up(key)
        page = hot.behind(after_seq)
        more = False
        if page is None:
            page = await self._page(key, after_seq, TURN_PAGE)
            more = len(page) == TURN_PAGE
        scanned = ((stored, scan(stored.raw)) for stored in page)
        said = [stored for stored, event in scanned if event.invocation_id == invocation_id and event.author != USER]
        return p.TurnRead(events=said, read_to_seq=page[-1].seq if page else after_seq, more=more)

    async def poll(self, message: p.Poll) -> p.News:
        """Give a subscriber its news, when there is some."""
        self._counts["polls"] += 1
        return await self._followers.poll(message)

    async def unsubscribe(self, message: p.Unsubscribe) -> p.Done:
        """Forget a subscriber."""
        self._followers.drop(message.subscriber)
        return p.Done()

    # ------------------------------------------------------------------------------------------------- sessions
    async def create_session(self, message: p.CreateSessionRequest) -> p.SessionIs:
        """Create a session."""
        return p.SessionIs(session=_info(await self._book.create(message.key, message.state)))

    async def get_session(self, message: p.GetSessionRequest) -> p.SessionIs:
        """Read a session."""
        hot = await self._book.find(message.key)
        if hot is None:
            return p.SessionIs()
        limit, after_s = message.num_recent_events, message.after_timestamp
        rows: list[tuple[int, bytes]] = []
        if limit is None or limit > 0:
            rows = await self._book.read(
                lambda: self._store.events(message.key, limit=limit, after_s=after_s, newest=limit is not None)
            )
        return p.SessionIs(session=_info(hot, [p.StoredEvent(seq, raw) for seq, raw in rows]))

    async def list_sessions(self, message: p.ListSessionsRequest) -> p.SessionsAre:
        """List sessions."""
        await self._book.flush()
        infos = []
        for row in await self._book.read(self._store.sessions, message.app, message.user):
            app_state, user_state = await self._book.shared_state(row.key)
            state = scopes.merge(scopes.Scopes(row.state, user_state, app_state, {}))
            infos.append(p.SessionInfo(key=row.key, state=state, updated_s=row.updated_s))
        return p.SessionsAre(sessions=infos)

    async def delete_session(self, message: p.DeleteSessionRequest) -> p.Done:
        """Delete a session that no turn uses."""
        hot = await self._book.find(message.key)
        if hot is not None:
            _refuse_if_busy(hot)
            hot.is_taken = True
            try:
                await self._book.write(hot, [RemoveSession(message.key)])
                self._book.forget(message.key)
            finally:
                hot.admit_next()
        return p.Done()

    async def append_event(self, message: p.AppendEventRequest) -> p.Appended:
        """Store an event that belongs to no turn."""
        hot = await self._book.take_up(message.key)
        _refuse_if_busy(hot)
        return p.Appended(first_seq=await self._add(hot, [(message.event, scan(message.event))], []))

    async def rewind(self, message: p.RewindRequest) -> p.Done:
        """Append the event that makes readers see the session as before a turn."""
        hot = await self._book.take_up(message.key)
        _refuse_if_busy(hot)
        hot.is_taken = True
        try:
            await self._book.flush()
            row = await self._book.read(self._store.turn, message.key, message.invocation_id)
            if row is None:
                raise InvocationNotFoundError(message.invocation_id, message.key.session)
            await self._rewind_to(hot, row)
        finally:
            hot.admit_next()
        return p.Done()

    async def _rewind_to(self, hot: HotLog, row: TurnRow) -> None:
        undos = await self._book.read(self._store.undos, hot.key, row.first_seq)
        before = scopes.take_back([decode(undo, dict) for _, undo in undos])
        removed = tuple(key for key, value in before.items() if not value)
        restored = {key: value[0] for key, value in before.items() if value}
        actions = EventActions(rewind_before_invocation_id=row.invocation_id, state_delta={**restored, **dict.fromkeys(removed)})
        hidden = HideEvents(hot.key, row.first_seq, hot.head_seq)
        event = _made_here(new_invocation_id(), USER, actions=actions)
        await self._add(hot, [event], [PutState(hot.key, {}, removed), hidden])
        # Rare enough to read anew what the store has made of it.
        hot.is_stale = True
        await self._book.take_up(hot.key)

    # ------------------------------------------------------------------------------------------------- memory
    async def remember(self, message: p.RememberSession) -> p.Done:
        """Put what a session says now into memory."""
        self._memory.require(message.key.app)
        hot = await self._book.take_up(message.key)
        generation = ""
        while generation != hot.generation:
            # Rewound while it was read: what was read first may not be visible any more.
            generation = hot.generation
            entries = await self._entries(message.key)
        await self._memory.add_session(message.key, entries)
        return p.Done()

    async def _entries(self, key: SessionKey) -> list[MemoryEntry]:
        """What is to be remembered of a log. Whole events, which may carry much that is no text, are held for one page."""
        entries: list[MemoryEntry] = []
        after_seq = 0
        while page := await self._page(key, after_seq):
            entries += [entry for stored in page if (entry := entry_of(key.session, stored.raw)) is not None]
            after_seq = page[-1].seq
        return entries

    async def forget(self, message: p.ForgetSession) -> p.Done:
        """Take a session out of memory."""
        await self._memory.delete_session(message.key)
        return p.Done()

    async def search_memory(self, message: p.SearchMemory) -> p.MemoriesAre:
        """Tell what is remembered of a user."""
        return p.MemoriesAre(entries=await self._memory.search(message.app, message.user, message.query))

    # ------------------------------------------------------------------------------------------------- everything else
    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Tell what has been done."""
        return p.Statistics(
            actor=self.name, pid=os.getpid(), counts={**self._counts, **self._book.counts, **self._followers.counts}
        )

    async def stop(self, _: p.Stop) -> p.Done:
        """Write what waits, and close the store."""
        self._followers.close()
        await self._memory.close()
        await self._book.close()
        return p.Done()

    async def _current(self, turn: p.TurnRef) -> tuple[HotLog, OpenTurn]:
        """The session of a turn that runs with that epoch. Raises FencedError when it does not."""
        hot = self._book.in_memory(turn.key)
        if hot is not None and hot.is_stale:
            await self._book.find(turn.key)
        return self._running(turn)

    def _running(self, turn: p.TurnRef) -> tuple[HotLog, OpenTurn]:
        """The same, as memory has it."""
        hot = self._book.in_memory(turn.key)
        if hot is None or hot.turn is None or not hot.is_current(turn):
            raise FencedError(turn.invocation_id, turn.epoch)
        return hot, hot.turn

    async def _calls(self, key: SessionKey, call_ids: Sequence[str]) -> list[CallRow]:
        """Who made these calls. Raises UnknownFunctionCallError for one that nobody made."""
        if call_ids:
            await self._book.flush()
        calls = []
        for call_id in call_ids:
            found = await self._book.read(self._store.call, key, call_id)
            if found is None:
                raise UnknownFunctionCallError(call_id, key.session)
            calls.append(found)
        return calls


_STATUS: dict[type[p.Message], str] = {
    p.Finished: "finished",
    p.Transfer: "finished",
    p.Paused: "paused",
    p.Failed: "failed",
    p.Cancelled: "cancelled",
}


_OVER = frozenset({"finished", "failed", "cancelled"})
"""States of a turn in which nothing of it waits."""


def _unknown_turn(invocation_id: str, first_seq: int) -> TurnRow:
    """The record of a turn that has none, such as one of an imported conversation."""
    return TurnRow(invocation_id=invocation_id, status="", epoch=0, first_seq=first_seq, opened_seq=first_seq)


def _ended(running: OpenTurn, agent: str, outcome: p.AnyOutcome) -> TurnRow:
    """The record of a turn that has ended. Its `temp:` state goes, unless it is only paused."""
    status = _STATUS[type(outcome)]
    temp = encode(running.temp) if status == "paused" and running.temp else b""
    return msgspec.structs.replace(running.row, status=status, agent=agent, outcome=encode(outcome), temp=temp)


def _outcome_of(row: TurnRow) -> p.AnyOutcome:
    """How a turn that does not run has ended. One without an outcome ended with the process that ran it."""
    if row.outcome:
        return p.decode_outcome(row.outcome)
    lost = TurnLostError(row.invocation_id)
    return p.Failed(error_code=type(lost).__name__, error_message=str(lost), error_args=list(lost.args))


def _refuse_if_busy(hot: HotLog) -> None:
    if not hot.is_idle():
        raise SessionBusyError(hot.key.session, hot.busy_with())


def _info(hot: HotLog, events: Sequence[p.StoredEvent] = ()) -> p.SessionInfo:
    return p.SessionInfo(key=hot.key, state=hot.merged_state(), events=events, updated_s=hot.updated_s)


def _made_here(invocation_id: str, author: str, **said: Any) -> tuple[bytes, EventScan]:
    """An event that the Session actor itself makes."""
    return new_event(Event(id=new_event_id(), invocation_id=invocation_id, author=author, timestamp=now_s(), **said))
