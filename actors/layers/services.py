"""Which services, hooks and extensions of turns the Session actor and the Runner have: the one place that knows all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from actors.layers.background.service import BackgroundRuns
from actors.layers.batches import KeptBatches
from actors.layers.draining import DrainNotes, RunnerDrain
from actors.layers.forks import SessionForks
from actors.layers.holds import UserHolds
from actors.layers.listing.service import RunningTurns, TurnListing
from actors.layers.memory import Memory
from actors.layers.placing.moves import UserMoves
from actors.layers.placing.placements import UserPlacements
from actors.layers.plugins import PluginHooks
from actors.layers.recording.service import RecordedCalls
from actors.layers.retention.service import Archiving, Retention
from actors.layers.retries import LastRetry, RunnerRetries, TurnRetries
from actors.layers.reverts import LogComparison
from actors.layers.rewinds import EarlierRecord, Rewinds
from actors.layers.schedules.due_turns import DueTurns
from actors.layers.schedules.service import Schedules
from actors.layers.sharing import StateNews
from actors.layers.spending.service import SpendingService
from actors.layers.spending.turn_spending import Spending
from actors.layers.steering.service import MessageNotifier, Steering
from actors.layers.tracing import TurnTrace
from actors.layers.updates.service import RunnerUpdates, SessionUpdates
from actors.layers.updates.versions import NO_VERSIONS, ONLY_TREE, SessionTrees, TreeSource, VersionRecord
from actors.layers.users import UserDeletion, WaitingTurns
from actors.messages.session import ONLY_SHARD, Shard
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from actors.runner.service import RunnerParts, RunnerService
from actors.session.actor import CORE_EXTENSIONS, SessionActor
from actors.session.environment import SessionEnvironment
from actors.session.log.open_turn import TurnExtension
from actors.session.service import SessionParts, SessionService

EXTENSIONS: Sequence[type[TurnExtension]] = (Spending, LastRetry, EarlierRecord, *CORE_EXTENSIONS)
"""What features keep of each turn. A record has them by their names."""


def session_actor(
    environment: SessionEnvironment, name: str = "session", shard: Shard = ONLY_SHARD, trees: SessionTrees = ONLY_TREE
) -> SessionActor:
    """A Session actor with all features: see `SessionActor`. `trees`: the versions of its tree."""
    return SessionActor(environment, name, shard, partial(all_services, trees=trees), EXTENSIONS)


def runner_actor(
    environment: RunnerEnvironment,
    name: str = "runner",
    app: str = "",
    shard: Shard = ONLY_SHARD,
    versions: VersionRecord = NO_VERSIONS,
    trees: TreeSource | None = None,
) -> RunnerActor:
    """A Runner with all features: see `RunnerActor`. `versions`, `trees`: see `RunnerUpdates`."""
    spans = partial(TurnTrace, environment.telemetry) if environment.telemetry.is_on else None
    return RunnerActor(
        environment, name, app, shard, partial(runner_services, versions=versions, trees=trees), PluginHooks, spans
    )


def runner_services(
    parts: RunnerParts, versions: VersionRecord = NO_VERSIONS, trees: TreeSource | None = None
) -> Sequence[RunnerService]:
    """Make all services of a Runner."""
    return (
        RunnerUpdates(parts, versions, trees),
        RunnerDrain(parts),
        RunningTurns(parts),
        RunnerRetries(parts),
        WaitingTurns(parts),
        DueTurns(parts),
        MessageNotifier(parts),
    )


def all_services(parts: SessionParts, trees: SessionTrees = ONLY_TREE) -> Sequence[SessionService]:
    """Make all services of a Session actor."""
    holds = UserHolds(parts)
    memory, batches = Memory(parts), KeptBatches(parts, holds)
    placements, schedules = UserPlacements(parts, memory, holds), Schedules(parts, holds)
    return (
        SessionUpdates(parts, trees),
        LogComparison(parts),
        StateNews(parts),
        SpendingService(parts),
        RecordedCalls(parts, holds),
        Rewinds(parts, schedules.due.note_due),
        TurnRetries(parts),
        SessionForks(parts, schedules.due.note_due),
        memory,
        batches,
        placements,
        UserMoves(parts, memory, placements, batches, schedules, holds),
        UserDeletion(parts, memory, batches, holds),
        Retention(parts, batches, holds),
        Archiving(parts, holds),
        DrainNotes(parts),
        schedules,
        Steering(parts, schedules.due),
        BackgroundRuns(parts, schedules.due),
        TurnListing(parts),
        # What waits for a hold has passed the others.
        holds,
    )
