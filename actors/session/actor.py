"""The Session actor: the one writer and reader of every log, and the keeper of the parent map.

There may be several, each with a share of the sessions: then each is the one writer and reader of its own.

It numbers events and stores them, folds state, lets one turn of a session run at a time, and tells drivers what happens. What
it acknowledges is on disk; nobody sees an event that is not.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from actors.actor import Actor, Handler
from actors.errors import InvocationNotFoundError, SessionBusyError
from actors.interfaces.records import HideEvents, PutState, RemoveSession, TurnRow
from actors.interfaces.stores import MemoryStore, SessionStore
from actors.messages import protocol as p
from actors.messages.codec import decode, decode_event, encode
from actors.messages.event import USER, EventActions, new_invocation_id
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.messages.memory import MemoryEntry
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.messages.topology import Topology
from actors.rules.checks import state as scopes
from actors.session.admission import Admission
from actors.session.log.event_scan import new_event, scan
from actors.session.log.logs import SessionLogs
from actors.session.log.session_log import SessionLog
from actors.session.memory import Memory, entry_of
from actors.session.subscribers.subscriptions import Subscriptions
from actors.session.turns.opening import Turns, made_here


class SessionActor(Actor):
    """See the head of this file.

    Args:
        store: where logs last.
        topology: the parent map.
        name: for messages and statistics.
        clock: seconds that only go forward; by default those of the event loop.
        memory: where memory lasts; None: the app has none.
        limits: how much it takes in.
        store_timeout_s: how long either store may be away before what needs it fails with StoreUnavailableError.
        share: which sessions it keeps. The others are kept by other Session actors, over the same store.
    """

    def __init__(
        self,
        store: SessionStore,
        topology: Topology,
        name: str = "session",
        clock: Callable[[], float] | None = None,
        memory: MemoryStore | None = None,
        limits: Limits = DEFAULT_LIMITS,
        store_timeout_s: float = 30.0,
        share: Shard = ONLY_SHARD,
    ) -> None:
        self._admission = Admission(limits)
        self._topology = topology
        self._book = SessionLogs(store, store_timeout_s, limits.max_cache_bytes, clock, is_shared=share.of > 1)
        self._store = store
        self._memory = Memory(memory, store_timeout_s)
        self._followers = Subscriptions(self._book.said, clock)
        self._counts = Counter(turns=0, events=0, partials=0, polls=0)
        self._turns = Turns(self._book, self._followers, self._admission, self._counts, topology, share)
        super().__init__(name)

    def handlers(self) -> Mapping[type[p.Message], Handler]:
        """The messages that the Session actor takes."""
        return {
            p.GetTopology: self.get_topology,
            p.FindTurn: self._turns.find,
            p.OpenTurn: self._turns.open,
            p.ListOpenTurns: self._turns.list_open,
            p.ResumeTurn: self._turns.resume,
            p.AbandonRuns: self._turns.abandon_runs,
            p.CloseTurn: self._turns.close,
            p.CancelTurn: self._turns.cancel,
            p.Append: self._turns.append,
            p.TellPartial: self._turns.tell_partial,
            p.Fetch: self.fetch,
            p.Subscribe: self._turns.subscribe,
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
    async def get_topology(self, _: p.GetTopology) -> p.TopologyReply:
        """Tell the parent map."""
        return p.TopologyReply(topology=self._topology)

    async def fetch(self, message: p.Fetch) -> p.Fetched:
        """Tell what is new in a log; from its start when it was rewound meanwhile."""
        hot = await self._book.take_up(message.key)
        if message.state_only:
            return p.Fetched(events=(), generation=hot.generation, state=encode(hot.merged_state()), state_seq=hot.state_seq)
        generation = hot.generation
        after_seq = message.after_seq if message.generation == generation else 0
        events = hot.behind(after_seq)
        more = False
        if events is None:
            events = await self._book.page(message.key, after_seq)
            more = bool(events) and events[-1].seq < hot.settled_seq
        state = encode(hot.merged_state())
        return p.Fetched(events=events, generation=generation, more=more, state=state, state_seq=hot.state_seq)

    # ------------------------------------------------------------------------------------------------- followers
    async def poll(self, message: p.Poll) -> p.News:
        """Give a subscriber its news, when there is some."""
        self._counts["polls"] += 1
        return await self._followers.poll(message)

    async def read_turn(self, message: p.ReadTurn) -> p.TurnRead:
        """Tell what a turn's agents have said."""
        return await self._book.said(message.key, message.invocation_id, message.after_seq)

    async def unsubscribe(self, message: p.Unsubscribe) -> p.Ack:
        """Forget a subscriber."""
        self._followers.drop(message.subscriber)
        return p.Ack()

    # ------------------------------------------------------------------------------------------------- sessions
    async def create_session(self, message: p.CreateSessionRequest) -> p.SessionReply:
        """Create a session."""
        await self._turns.catch_up(message.key)
        self._admission.new(message.key, message.state, *await self._book.shared_state(message.key))
        return p.SessionReply(session=_info(await self._book.create(message.key, message.state)))

    async def get_session(self, message: p.GetSessionRequest) -> p.SessionReply:
        """Read a session."""
        hot = await self._book.find(message.key)
        if hot is None:
            return p.SessionReply()
        await self._turns.catch_up(message.key)
        limit, after_s = message.num_recent_events, message.after_timestamp
        events: list[p.StoredEvent] = []
        if limit is None or limit > 0:
            events = await self._book.events(message.key, limit=limit, after_s=after_s, newest=limit is not None)
        return p.SessionReply(session=_info(hot, events))

    async def list_sessions(self, message: p.ListSessionsRequest) -> p.SessionsReply:
        """List sessions."""
        await self._book.flush()
        infos = []
        rows = await self._book.read(self._store.sessions, message.app, message.user)
        if self._book.is_shared:
            for key in {row.key.user: row.key for row in rows}.values():
                await self._turns.catch_up(key)
        for row in rows:
            app_state, user_state = await self._book.shared_state(row.key)
            state = scopes.merge(scopes.Scopes(row.state, user_state, app_state, {}))
            infos.append(p.SessionInfo(key=row.key, state=state, updated_s=row.updated_s))
        return p.SessionsReply(sessions=infos)

    async def delete_session(self, message: p.DeleteSessionRequest) -> p.Ack:
        """Delete a session that no turn uses."""
        hot = await self._book.find(message.key)
        if hot is not None:
            if hot.turn is None or hot.turn.runner:
                # One that is open and that nobody runs, since its process was lost, goes with the session.
                _refuse_if_busy(hot)
            hot.is_taken = True
            hot.turn = None
            try:
                await self._book.write(hot, [RemoveSession(message.key)])
                self._book.forget(message.key)
            finally:
                hot.start_next()
        return p.Ack()

    async def append_event(self, message: p.AppendEventRequest) -> p.Appended:
        """Store an event that belongs to no turn."""
        hot = await self._book.take_up(message.key)
        await self._turns.catch_up(message.key)
        _refuse_if_busy(hot)
        raw, event = message.event, scan(message.event)
        if any(key.startswith(scopes.TEMP) for key in event.actions.state_delta):
            # Of no turn, so there is nobody who could see it.
            given = decode_event(raw, 0)
            kept = msgspec.structs.replace(given.actions, state_delta=scopes.without_temp(given.actions.state_delta))
            raw, event = new_event(msgspec.structs.replace(given, actions=kept))
        place = await self._book.place(message.key, event.id)
        if place is not None and (await self._book.events(message.key, after_seq=place[0] - 1, limit=1))[0].raw == raw:
            # Sent again, since the reply was lost with the process that gave it.
            return p.Appended(first_seq=place[0])
        # It may have left memory, or a turn may have begun, while the store was asked.
        hot = await self._book.take_up(message.key)
        _refuse_if_busy(hot)
        self._admission.event(hot, raw, event)
        return p.Appended(first_seq=await self._turns.add(hot, [(raw, event)], []))

    async def rewind(self, message: p.RewindRequest) -> p.Ack:
        """Append the event that makes readers see the session as before a turn."""
        hot = await self._book.take_up(message.key)
        _refuse_if_busy(hot)
        hot.is_taken = True
        try:
            row = await self._book.turn(message.key, message.invocation_id)
            if row is None:
                raise InvocationNotFoundError(message.invocation_id, message.key.session)
            await self._rewind_to(hot, row)
        finally:
            hot.start_next()
        return p.Ack()

    async def _rewind_to(self, hot: SessionLog, row: TurnRow) -> None:
        undos = await self._book.read(self._store.undos, hot.key, row.first_seq)
        before = scopes.take_back([decode(undo, dict) for _, undo in undos])
        removed = tuple(key for key, value in before.items() if not value)
        restored = {key: value[0] for key, value in before.items() if value}
        actions = EventActions(rewind_before_invocation_id=row.invocation_id, state_delta={**restored, **dict.fromkeys(removed)})
        hidden = HideEvents(hot.key, row.first_seq, hot.head_seq)
        event = made_here(new_invocation_id(), USER, actions=actions)
        await self._turns.add(hot, [event], [PutState(hot.key, {}, removed), hidden])
        # Rare enough to read anew what the store has made of it.
        hot.is_stale = True
        await self._book.take_up(hot.key)

    # ------------------------------------------------------------------------------------------------- memory
    async def remember(self, message: p.RememberSession) -> p.Ack:
        """Put what a session says now into memory."""
        self._memory.require(message.key.app)
        hot = await self._book.take_up(message.key)
        generation = ""
        while generation != hot.generation:
            # Rewound while it was read: what was read first may not be visible any more.
            generation = hot.generation
            entries = await self._entries(message.key)
        await self._memory.add_session(message.key, entries)
        return p.Ack()

    async def _entries(self, key: SessionKey) -> list[MemoryEntry]:
        """What is to be remembered of a log. Whole events, which may carry much that is no text, are held for one page."""
        entries: list[MemoryEntry] = []
        after_seq = 0
        while page := await self._book.page(key, after_seq):
            entries += [entry for stored in page if (entry := entry_of(key.session, stored.raw)) is not None]
            after_seq = page[-1].seq
        return entries

    async def forget(self, message: p.ForgetSession) -> p.Ack:
        """Take a session out of memory."""
        await self._memory.delete_session(message.key)
        return p.Ack()

    async def search_memory(self, message: p.SearchMemory) -> p.MemoriesReply:
        """Tell what is remembered of a user."""
        return p.MemoriesReply(entries=await self._memory.search(message.app, message.user, message.query))

    # ------------------------------------------------------------------------------------------------- everything else
    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Tell what has been done."""
        counts = {**self._counts, **self._book.counts, **self._followers.counts}
        return p.Statistics(actor=self.name, pid=os.getpid(), counts=counts)

    async def stop(self, _: p.Stop) -> p.Ack:
        """Write what waits, and close the store."""
        self._followers.close()
        await self._memory.close()
        await self._book.close()
        return p.Ack()


def _refuse_if_busy(hot: SessionLog) -> None:
    if not hot.is_idle():
        raise SessionBusyError(hot.key.session, hot.busy_with())


def _info(hot: SessionLog, events: Sequence[p.StoredEvent] = ()) -> p.SessionInfo:
    # What is of the turn that runs is nobody else's business.
    state = scopes.merge(scopes.Scopes(hot.state, hot.user_state, hot.app_state, {}))
    return p.SessionInfo(key=hot.key, state=state, events=events, updated_s=hot.updated_s)
