"""The Session actor: the one writer and reader of every log, and the owner of the parent map.

It numbers events and stores them, folds state, lets one turn of a session run at a time, and delivers the events of turns to the
drivers that follow them. What it acknowledges is on disk; no reader sees an event that is not. A turn never has two writers: each
write names the turn's epoch and its run, and is refused after the turn was given to another Runner, or the run was abandoned.

There may be several Session actors, each with a shard of the sessions: then each is the one writer and reader of its own.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from actors.actor import Actor, Handler, Handlers, KeyedLocks, with_services
from actors.interfaces.stores import TurnRow
from actors.messages import protocol as p
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.rules.accounting import Tallies
from actors.rules.eviction import Cache
from actors.session.environment import SessionEnvironment
from actors.session.lanes import Lanes
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import TurnExtension
from actors.session.log.queries import LogQueries
from actors.session.log.reader import LogReader
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedStates
from actors.session.log.writer import COUNTED, Admission, LogWriter
from actors.session.service import Runners, Services, SessionParts, SessionVersions, VersionChange, no_services
from actors.session.sessions import StoredSessions, end_gone
from actors.session.store.access import StoreAccess
from actors.session.subscriptions import POLL_S, Subscriptions
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.opening import TurnOpener
from actors.session.turns.recovery import Losses, TurnRecovery
from actors.session.turns.writing import TurnEnder, TurnWriter

CORE_EXTENSIONS: Sequence[type[TurnExtension]] = (VersionChange, Losses)
"""What the core itself keeps of each turn by extensions."""


class SessionActor(Actor):
    """Keeps the logs of an app, or of a shard of its sessions.

    Args:
        name: for messages and statistics.
        shard: the sessions that it serves; other Session actors serve the others, over the same store.
        extensions: what is kept of each turn: see `TurnExtension`.
    """

    def __init__(
        self,
        environment: SessionEnvironment,
        name: str = "session",
        shard: Shard = ONLY_SHARD,
        services: Services = no_services,
        extensions: Sequence[type[TurnExtension]] = CORE_EXTENSIONS,
    ) -> None:
        limits, clock = environment.limits, environment.clock
        self._counts = counts = Counter(dict.fromkeys(("turns", "events", "partials", *COUNTED), 0))
        self._access = access = StoreAccess(
            environment.store,
            environment.store_timeout_s,
            environment.writer,
            environment.on_replaced,
            clock,
            environment.on_late_write,
        )
        self._versions = SessionVersions(environment)
        reader, shared = LogReader(access, extensions), SharedStates(access, has_other_writers=shard.of > 1)
        self._logs = logs = SessionLogs(access, reader, shared, limits.max_cache_bytes, clock)
        self._queries = LogQueries(logs, reader)
        self._subscriptions = subscriptions = Subscriptions(
            self._queries.turn_page, clock, POLL_S if environment.looks_again else None
        )
        self.cache: Cache = logs.cache
        self._tallies = tallies = Tallies()
        writer = LogWriter(logs, subscriptions, counts, tallies)
        admission = Admission(limits, is_one_of_several=environment.place.of > 1)
        changes = KeyedLocks[SessionKey]()
        parts = SessionParts(
            environment=environment,
            versions=self._versions,
            shard=shard,
            counts=counts,
            access=access,
            shared=shared,
            reader=reader,
            logs=logs,
            subscriptions=subscriptions,
            writer=writer,
            admission=admission,
            runners=Runners(),
            tallies=tallies,
            changes=changes,
        )
        shared.on_change = admission.forget_state
        logs.on_reload = self._show_rest
        logs.on_gone = self._end_gone
        self._lookup = lookup = TurnLookup(parts)
        self._recovery = recovery = TurnRecovery(parts, lookup)
        self._opener = TurnOpener(parts, lookup, recovery)
        self._ender = TurnEnder(parts, lookup)
        self._writer = TurnWriter(parts, lookup, self._ender)
        self._sessions = StoredSessions(parts)
        self._lanes = Lanes(limits, changes)
        self._services = services(parts)
        super().__init__(name)

    def handlers(self) -> Handlers:
        """The messages that it takes, each behind what its lane has it wait for, and what services do around it."""
        handlers = with_services(self._core_handlers(), self._services)
        return {kind: self._around(kind, self._lanes.behind(kind, handler)) for kind, handler in handlers.items()}

    def _around(self, kind: type[p.Request[Any]], handler: Handler) -> Handler:
        for service in reversed(self._services):
            handler = service.around(kind, handler)
        return handler

    def _core_handlers(self) -> Handlers:
        return {
            p.GetTopology: self._versions.get_topology,
            p.FindTurn: self._lookup.find_turn,
            p.OpenTurn: self._opener.open_turn,
            p.AnnounceRunner: self._recovery.announce_runner,
            p.ListOpenTurns: self._recovery.list_open_turns,
            p.ResumeTurn: self._recovery.resume_turn,
            p.AbandonRuns: self._recovery.abandon_runs,
            p.BeginAlone: self._recovery.begin_alone,
            p.CloseTurn: self._ender.close_turn,
            p.CancelTurn: self._ender.cancel_turn,
            p.Append: self._writer.append,
            p.TellPartial: self._writer.tell_partial,
            p.Fetch: self._queries.fetch,
            p.ReadTurn: self._queries.read_turn,
            p.ReadLog: self._queries.read_log,
            p.Subscribe: self._lookup.subscribe,
            p.Poll: self._subscriptions.poll,
            p.Unsubscribe: self._subscriptions.unsubscribe,
            p.CreateSessionRequest: self._sessions.create_session,
            p.GetSessionRequest: self._sessions.get_session,
            p.ListSessionsRequest: self._sessions.list_sessions,
            p.DeleteSessionRequest: self._sessions.delete_session,
            p.AppendEventRequest: self._sessions.append_event,
            p.OpenStore: self.open_store,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    def _end_gone(self, log: SessionLog) -> None:
        """End all of a session that a write has removed whose outcome could not be told. What waits there is refused."""
        end_gone(self._subscriptions, log.key, log.open_id())
        log.turn = None
        log.queue.start_next()

    def _show_rest(self, log: SessionLog, ended: TurnRow | None) -> None:
        """Show what the store has of the open turn after a write whose outcome could not be told, its end as well."""
        invocation_id = log.turn.row.invocation_id if log.turn is not None else ""
        self._subscriptions.expect(log.key, invocation_id, log.head_seq)
        if ended is not None:
            self._ender.end_as_stored(log, ended)

    async def open_store(self, _: p.OpenStore) -> p.Ack:
        """Open the session store. Raises StoreError when it cannot be used. A memory that cannot be used stops no turn."""
        await self._access.open()
        return p.Ack()

    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """The actor's figures."""
        return self.figures()

    def figures(self) -> p.Statistics:
        """The actor's figures."""
        counts = {**self._counts, **self._logs.counts, **self._subscriptions.counts}
        return p.Statistics(
            actor=self.name,
            pid=os.getpid(),
            counts=counts,
            tallies=self._tallies.all(),
            standby_pids=self.standby_pids,
            connections=self.connections(),
        )

    async def stop(self, _: p.Stop) -> p.Ack:
        """Write what waits, then close the stores."""
        self._subscriptions.close()
        for service in self._services:
            await service.close()
        await self._access.close()
        return p.Ack()
