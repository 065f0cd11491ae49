"""The Session actor: the one writer and reader of every log, and the owner of the parent map.

It numbers events and stores them, folds state, lets one turn of a session run at a time, and delivers the events of turns to the
drivers that follow them. What it acknowledges is on disk; no reader sees an event that is not. A turn never has two writers: each
write names the turn's epoch and its run, and is refused after the turn was given to another Runner, or the run was abandoned.

There may be several Session actors, each with a shard of the sessions: then each is the one writer and reader of its own.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from actors.actor import Actor, Handler, Handlers, QuickHandler
from actors.interfaces.records import TurnRow
from actors.messages import protocol as p
from actors.messages.protocol.request import Lane
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.refs.keyed_locks import KeyedLocks
from actors.rules.accounting.tallies import Tallies
from actors.rules.capacity.cache_share import Cache
from actors.session.admission import Admission
from actors.session.archiving import Archiving
from actors.session.batches.keeping import KeptBatches
from actors.session.draining import DrainNotes
from actors.session.due_times import LONGEST_NAP_S, DueTimes
from actors.session.environment import SessionEnvironment
from actors.session.forks.forking import SessionForks
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import TurnExtension
from actors.session.log.queries import LogQueries
from actors.session.log.reader import LogReader
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedStates
from actors.session.log.user_holds import UserHolds
from actors.session.log.writer import COUNTED, LogWriter
from actors.session.losses.counting import LossCounts
from actors.session.losses.turn_losses import Losses
from actors.session.memory import Memory
from actors.session.placing.gate import UserGate
from actors.session.placing.moves import UserMoves
from actors.session.placing.placements import UserPlacements
from actors.session.query_line import QueryLine
from actors.session.retention import Retention
from actors.session.retries.last_retry import LastRetry
from actors.session.retries.retrying import TurnRetries
from actors.session.schedules import Schedules
from actors.session.services import SessionServices
from actors.session.sharing.news import StateNews
from actors.session.sharing.peers import Peers
from actors.session.spending.accounts import BudgetAccounts
from actors.session.spending.day_sums import DaySums
from actors.session.spending.reserving import COUNTED_OF_BUDGETS, TurnBudgets
from actors.session.spending.stored_usage import StoredUsage
from actors.session.spending.today import SumsOfToday
from actors.session.spending.turn_spending import Spending
from actors.session.spending.usage import UsageReports
from actors.session.spending.used import UsedBudgets
from actors.session.store.access import StoreAccess
from actors.session.subscribers.outbox import POLL_S
from actors.session.subscribers.subscriptions import Subscriptions
from actors.session.timeouts import Timeout
from actors.session.turns.ending import TurnEnder
from actors.session.turns.joining import TurnJoiner
from actors.session.turns.listing import TurnListing
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.losing import TurnLosses
from actors.session.turns.opening import TurnOpener
from actors.session.turns.parts import SessionParts
from actors.session.turns.recorded_calls import RecordedCalls
from actors.session.turns.recovery import TurnRecovery
from actors.session.turns.runners import Runners
from actors.session.turns.writing import TurnWriter
from actors.session.users import UserDeletion
from actors.session.versions import SessionVersions, VersionChange

EXTENSIONS: Sequence[type[TurnExtension]] = (Spending, Losses, LastRetry, Timeout, VersionChange)
"""What features keep of each turn. A record has them by their names."""


class SessionActor(Actor):
    """Keeps the logs of an app, or of a shard of its sessions.

    Args:
        environment: what it works with.
        name: for messages and statistics.
        shard: the sessions that it serves; other Session actors serve the others, over the same store.

    Attributes:
        cache: what it keeps of sessions.
    """

    def __init__(self, environment: SessionEnvironment, name: str = "session", shard: Shard = ONLY_SHARD) -> None:
        limits, clock = environment.limits, environment.clock
        steady_clock = clock or time.monotonic
        self._counts = counts = Counter(dict.fromkeys(("turns", "events", "partials", *COUNTED, *COUNTED_OF_BUDGETS), 0))
        self._access = access = StoreAccess(
            environment.store,
            environment.store_timeout_s,
            environment.writer,
            environment.on_replaced,
            steady_clock,
            environment.on_late_write,
        )
        self._versions = versions = SessionVersions(environment, access)
        reader, shared = LogReader(access, EXTENSIONS), SharedStates(access, has_other_writers=shard.of > 1)
        peers = Peers(shard, environment.peers)
        self._state_news = StateNews(access, shared, peers, steady_clock, is_successor=environment.is_successor)
        user_holds = UserHolds(clock)
        self._logs = logs = SessionLogs(access, reader, shared, limits.max_cache_bytes, clock, user_holds)
        self._queries = LogQueries(logs, reader)
        self._subscriptions = subscriptions = Subscriptions(
            self._queries.turn_page, clock, POLL_S if environment.looks_again else None
        )
        self.cache: Cache = logs.cache
        self._tallies = tallies = Tallies()
        writer, admission = (
            LogWriter(logs, subscriptions, counts, tallies),
            Admission(limits, is_one_of_several=environment.place.of > 1),
        )
        self._due_times = due = DueTimes(
            access, shard, environment.now_s, tallies, user_holds, LONGEST_NAP_S if environment.looks_again else math.inf
        )
        self._changes = changes = KeyedLocks[SessionKey]()
        room = (writer, admission, user_holds, Runners(), due, tallies, changes)
        parts = SessionParts(versions, shard, counts, access, shared, reader, logs, subscriptions, *room)
        shared.on_change = admission.forget_state
        logs.on_reload = self._show_rest
        logs.comparison.on_lost = TurnLosses(subscriptions).end_all
        self._lookup = lookup = TurnLookup(parts)
        self._joiner = TurnJoiner(parts, lookup)
        self._recovery = recovery = TurnRecovery(parts)
        self._retries = TurnRetries(parts, lookup, recovery)
        self._losses = LossCounts(parts, lookup)
        self._opener = TurnOpener(parts, lookup, self._joiner, recovery)
        self._ender = TurnEnder(parts, lookup)
        self._recorded = RecordedCalls(parts, lookup, environment.keep_calls_s, clock)
        self._listing = TurnListing(parts, lookup)
        usage = StoredUsage(parts)
        today = SumsOfToday(lambda user: DaySums(usage, logs, has_others=shard.of > 1, user=user))
        today.on_wanted = partial(writer.track, today.track, today.note)
        self._writer = TurnWriter(parts, lookup, self._ender, self._recorded)
        self._usage = UsageReports(usage, environment.prices)
        accounts = BudgetAccounts(versions.topology, usage, today)
        self._budgets = TurnBudgets(logs, lookup, accounts, environment.prices, counts)
        self._used_budgets = UsedBudgets(parts, lookup, accounts, environment.prices)
        self._services = SessionServices(parts)
        self._forks = SessionForks(parts)
        self._memory = Memory(environment.memory, environment.store_timeout_s, logs, reader)
        self._placements = UserPlacements(access, self._memory, environment.place)
        user_holds.on_passed = self._placements.check_key
        self._gate = UserGate(user_holds, self._placements)
        self._batches = KeptBatches(access, user_holds)
        self._moves = UserMoves(parts, self._memory, self._placements, self._batches)
        self._users = UserDeletion(parts, self._memory, self._batches)
        self._retention = Retention(parts, self._batches)
        self._archiving = Archiving(parts)
        self._drain = DrainNotes(subscriptions)
        self._schedules = Schedules(parts, limits)
        self._line = QueryLine(limits)
        super().__init__(name)

    def handlers(self) -> Handlers:
        """The messages that the Session actor takes, each behind what its lane has it wait for."""
        return {kind: self._gate.guarded(kind, self._in_lane(kind.lane, each)) for kind, each in self._all_handlers().items()}

    def _in_lane(self, lane: Lane, handler: Handler) -> Handler:
        if lane is Lane.QUERY:
            return self._line.bounded(handler)
        return self._change(handler) if lane is Lane.CHANGE else handler

    def quick_handlers(self) -> Mapping[type[p.Request[Any]], QuickHandler]:
        """Those of the messages that each turn has. Where there are several stores, users' placements are looked up first."""
        of_no_user: Mapping[type[p.Request[Any]], QuickHandler] = {p.Poll: self._subscriptions.poll}
        if self._placements.is_one_of_several:
            return of_no_user
        return {
            **of_no_user,
            p.OpenTurn: self._opener.quick.open_turn_quickly,
            p.Append: self._writer.append_quickly,
            p.TellPartial: self._writer.tell_partial_quickly,
        }

    def _all_handlers(self) -> Handlers:
        return {
            p.GetTopology: self._versions.get_topology,
            p.GetVersions: self._versions.get_versions,
            p.UseVersions: self._versions.use_versions,
            p.FindTurn: self._lookup.find_turn,
            p.OpenTurn: self._opener.open_turn,
            p.AnnounceRunner: self._recovery.announce_runner,
            p.ListOpenTurns: self._recovery.list_open_turns,
            p.ResumeTurn: self._recovery.resume_turn,
            p.RetryTurn: self._retries.retry_turn,
            p.AbandonRuns: self._losses.abandon_runs,
            p.BeginAlone: self._losses.begin_alone,
            p.CloseTurn: self._ender.close_turn,
            p.CancelTurn: self._ender.cancel_turn,
            p.Append: self._writer.append,
            p.TellPartial: self._writer.tell_partial,
            p.ReserveSpending: self._budgets.reserve,
            p.Fetch: self._queries.fetch,
            p.ReadTurn: self._queries.read_turn,
            p.ListTurns: self._listing.list_turns,
            p.CountTurns: self._listing.count_turns,
            p.GetTurn: self._listing.get_turn,
            p.GetTurnBudgets: self._used_budgets.get_turn_budgets,
            p.GetUsage: self._usage.get_usage,
            p.ListPending: self._listing.list_pending,
            p.GetModelCalls: self._recorded.get_model_calls,
            p.ReadLog: self._queries.read_log,
            p.Subscribe: self._joiner.subscribe,
            p.Unsubscribe: self._subscriptions.unsubscribe,
            p.CreateSessionRequest: self._services.create_session,
            p.GetSessionRequest: self._services.get_session,
            p.ListSessionsRequest: self._services.list_sessions,
            p.DeleteSessionRequest: self._services.delete_session,
            p.AppendEventRequest: self._services.append_event,
            p.RewindRequest: self._services.rewind,
            p.ForkSession: self._forks.fork,
            p.OpenStore: self.open_store,
            p.WatchStates: self._state_news.watch_states,
            p.ForgetStates: self._state_news.forget_states,
            p.HoldUser: self._users.hold_user,
            p.RemoveUser: self._users.remove_user,
            p.ReleaseUser: self._users.release_user,
            p.GetStoreSeat: self._placements.get_store_seat,
            p.TakeStoreSeat: self._placements.take_store_seat,
            p.ListStoreUsers: self._placements.list_store_users,
            p.PlaceUsers: self._placements.place_users,
            p.ReadUserRows: self._moves.read_user_rows,
            p.BeginArrival: self._moves.begin_arrival,
            p.StageUserRows: self._moves.stage_user_rows,
            p.LeaveStore: self._moves.leave_store,
            p.GetArrivalDigest: self._moves.get_arrival_digest,
            p.AdmitUser: self._moves.admit_user,
            p.DropArrival: self._moves.drop_arrival,
            p.ListArrivals: self._moves.list_arrivals,
            p.GetPlacement: self._moves.get_placement,
            p.FindOldSessions: self._retention.find_old_sessions,
            p.PruneSessions: self._retention.prune_sessions,
            p.ArchiveOldEvents: self._archiving.archive_old_events,
            p.CreateSchedule: self._schedules.create_schedule,
            p.ListSchedules: self._schedules.list_schedules,
            p.ChangeSchedule: self._schedules.change_schedule,
            p.AwaitDue: self._schedules.await_due,
            p.PassDueTime: self._schedules.pass_due_time,
            p.SaveBatch: self._batches.save_batch,
            p.ListBatches: self._batches.list_batches,
            p.ListBatchItems: self._batches.list_items,
            p.RememberSession: self._memory.remember,
            p.ForgetSession: self._memory.forget_session,
            p.SearchMemory: self._memory.search_memory,
            p.Drain: self._drain.note_drain,
            p.GetDrain: self._drain.get_drain,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    def _change(self, handler: Handler) -> Handler:
        """The handler of a change, which waits for those before it in its session: its own first one may be among them."""

        async def handle(message: Any) -> p.Message:
            async with self._changes.locked(message.key):
                return await handler(message)

        return handle

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
        self._due_times.close()
        await self._state_news.close()
        await self._recorded.close()
        await self._memory.close()
        await self._access.close()
        return p.Ack()
