"""What each message to a Session actor does to what belongs to users: by that it waits while its user is held.

Rules of this file:

- Each message stands in one of the sets. An actor whose messages do not does not start, so none can be forgotten.
- While a user is deleted nothing begins, and what is under way may end. While a user is moved nothing is written at all: the
  hold of a move begins when nothing is under way.
- A message waits before its handler begins. Until the handler has ended no hold of its user is complete.
"""

from __future__ import annotations

from actors.messages import protocol as p

READS = frozenset(
    {
        p.CountTurns,
        p.Fetch,
        p.FindOldSessions,
        p.GetModelCalls,
        p.GetSessionRequest,
        p.GetTurn,
        p.GetTurnBudgets,
        p.GetUsage,
        p.ListOpenTurns,
        p.ListPending,
        p.ListSchedules,
        p.ListSessionsRequest,
        p.ListTurns,
        p.ReadLog,
        p.ReadTurn,
        p.SearchMemory,
        p.Subscribe,
        p.TellPartial,
    }
)
"""Messages that write nothing of a user. What they reply is checked once more: the user may have been moved meanwhile."""

BEGINS = frozenset(
    {
        p.AppendEventRequest,
        p.ChangeSchedule,
        p.CreateSchedule,
        p.CreateSessionRequest,
        p.DeleteSessionRequest,
        p.FindTurn,
        p.ForgetSession,
        p.ForkSession,
        p.OpenTurn,
        p.PassDueTime,
        p.RememberSession,
        p.ResumeTurn,
        p.RetryTurn,
        p.RewindRequest,
    }
)
"""Messages that write something new of a user: they wait while the user is deleted or moved."""

GOES_ON = frozenset({p.AbandonRuns, p.Append, p.BeginAlone, p.CancelTurn, p.CloseTurn, p.ReserveSpending})
"""Messages that write what a turn does that is there: they wait while the user is moved. A deletion waits for them."""

OF_MANY = frozenset({p.ArchiveOldEvents, p.AwaitDue, p.PruneSessions, p.SaveBatch})
"""Messages that write something of several users, whom they do not name: their handlers wait for each by themselves."""

HOLDS = frozenset(
    {
        p.AdmitUser,
        p.BeginArrival,
        p.DropArrival,
        p.GetArrivalDigest,
        p.GetPlacement,
        p.HoldUser,
        p.LeaveStore,
        p.ListArrivals,
        p.ReadUserRows,
        p.ReleaseUser,
        p.RemoveUser,
        p.StageUserRows,
    }
)
"""Messages of those that hold users: steps of a move, or of a deletion."""

OF_NO_USER = frozenset(
    {
        p.AnnounceRunner,
        p.Drain,
        p.ForgetStates,
        p.GetDrain,
        p.GetStatistics,
        p.GetStoreSeat,
        p.GetTopology,
        p.GetVersions,
        p.ListBatchItems,
        p.ListBatches,
        p.ListStoreUsers,
        p.OpenStore,
        p.PlaceUsers,
        p.Stop,
        p.TakeStoreSeat,
        p.Unsubscribe,
        p.UseVersions,
        p.WatchStates,
    }
)
"""Messages that concern the actor, its store, its subscribers, or what no user has."""


def check_effect(kind: type[p.Message]) -> None:
    """Check that a message stands in one of the sets.

    Raises:
        TypeError: it stands in none, or in two.
    """
    sets = sum(kind in each for each in (READS, BEGINS, GOES_ON, OF_MANY, HOLDS, OF_NO_USER))
    if sets != 1:
        raise TypeError(f"{kind.__name__} stands in {sets} sets of actors.rules.placing.effects: it has to stand in one")
