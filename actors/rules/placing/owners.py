"""Whose data a message to a Session actor is about: by that it finds the store in which the user is."""

from __future__ import annotations

from actors.messages import protocol as p
from actors.messages.session import SessionKey

OF_ANY_STORE = (
    p.AdmitUser,
    p.AnnounceRunner,
    p.ArchiveOldEvents,
    p.AwaitDue,
    p.BeginArrival,
    p.CountTurns,
    p.Drain,
    p.DropArrival,
    p.FindOldSessions,
    p.GetDrain,
    p.GetArrivalDigest,
    p.GetPlacement,
    p.ForgetStates,
    p.GetStatistics,
    p.GetStoreSeat,
    p.GetTopology,
    p.GetVersions,
    p.LeaveStore,
    p.ListArrivals,
    p.ListBatchItems,
    p.ListBatches,
    p.ListOpenTurns,
    p.ListStoreUsers,
    p.OpenStore,
    p.PlaceUsers,
    p.Poll,
    p.PruneSessions,
    p.ReleaseUser,
    p.ReadUserRows,
    p.SaveBatch,
    p.StageUserRows,
    p.Stop,
    p.TakeStoreSeat,
    p.Unsubscribe,
    p.UseVersions,
    p.WatchStates,
)
"""Messages that are sent to one Session actor, or to each of them, and concern its store, whether a user is in it or not."""

OF_USERS = (p.GetUsage, p.ListPending, p.ListSessionsRequest, p.ListSchedules, p.ListTurns)
"""Messages about one user, or about all of them: then they go to all stores."""

OF_ONE_USER = (p.HoldUser, p.RemoveUser, p.SearchMemory)
"""Messages that name their user beside the app. All others have the key of a session, or of a turn's."""


def user_of(message: p.Message) -> tuple[str, str] | None:
    """The app and the user that a message is about; None: it is about none, or about all of them."""
    if isinstance(message, OF_ANY_STORE):
        return None
    if isinstance(message, OF_USERS):
        return (message.app, message.user) if message.user is not None else None
    if isinstance(message, OF_ONE_USER):
        return message.app, message.user
    key = session_key_of(message)
    return (key.app, key.user) if key is not None else None


def session_key_of(message: p.Message) -> SessionKey | None:
    """The session that a message names by its key, or by that of its turn; None: it names none."""
    named = message if hasattr(message, "key") else getattr(message, "turn", None)
    key = getattr(named, "key", None)
    return key if isinstance(key, SessionKey) else None
