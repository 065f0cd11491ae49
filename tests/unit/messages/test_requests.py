"""What each request to a Session actor says of itself, in one table: a change of one shows here.

Replies of several stores are joined: in one order, and each thing once, also where a user is moved while the stores are asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.layers.listing.messages import ListTurns
from actors.messages import protocol as p
from actors.messages.protocol.base import Request, replies_to
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from tests.support.fixtures.session_fixture import SessionFixture

OPENED = "TurnBegun | TurnResumed | TurnJoined | MessageLeft | CancelRequired | ResumeRequired | NotLeader"

REQUESTS = {
    "AbandonRuns": ("SESSION", "GO_ON", "TurnProgress", False),
    "AdmitUser": ("ACTOR", "DIRECT", "Ack", False),
    "AnnounceRunner": ("ACTOR", "DIRECT", "Ack | NotLeader", False),
    "Append": ("SESSION", "GO_ON", "Appended", False),
    "AppendEventRequest": ("SESSION", "CHANGE", "Appended", False),
    "ArchiveOldEvents": ("ACTOR", "DIRECT", "OldEventsArchived", False),
    "AwaitDue": ("ACTOR", "DIRECT", "DueReply | NotLeader", False),
    "BeginAlone": ("SESSION", "GO_ON", "Ack", False),
    "BeginArrival": ("ACTOR", "DIRECT", "Ack", False),
    "CancelTurn": ("SESSION", "GO_ON", "Ack | AlreadyRunning | NotLeader", False),
    "ChangeSchedule": ("SESSION", "BEGIN", "SchedulesReply", False),
    "CloseTurn": ("SESSION", "GO_ON", "Ack", False),
    "CountTurns": ("ACTOR", "QUERY", "TurnsCounted", False),
    "CreateSchedule": ("SESSION", "BEGIN", "SchedulesReply", False),
    "CreateSessionRequest": ("SESSION", "BEGIN", "SessionReply", True),
    "DeleteSessionRequest": ("SESSION", "CHANGE", "Ack", False),
    "Drain": ("ALL", "DIRECT", "Draining", False),
    "DropArrival": ("ACTOR", "DIRECT", "Ack", False),
    "Fetch": ("SESSION", "READ", "Fetched", False),
    "FindMessage": ("SESSION", "READ", "MessagePlace", False),
    "FindOldSessions": ("ACTOR", "QUERY", "OldSessions", False),
    "FindTurn": ("SESSION", "BEGIN", "TurnFound", False),
    "ForgetSession": ("SESSION", "BEGIN", "Ack", False),
    "ForgetStates": ("ACTOR", "DIRECT", "Ack", False),
    "ForkSession": ("SESSION", "CHANGE", "Ack", True),
    "GetArrivalDigest": ("ACTOR", "DIRECT", "ArrivalDigest", False),
    "GetDrain": ("FIRST", "DIRECT", "Drain", False),
    "GetModelCalls": ("SESSION", "QUERY", "ModelCallsReply", False),
    "GetPlacement": ("ACTOR", "DIRECT", "PlacementReply", False),
    "GetSessionRequest": ("SESSION", "QUERY", "SessionReply", False),
    "GetStatistics": ("ALL", "DIRECT", "Statistics", False),
    "GetStoreSeat": ("ACTOR", "DIRECT", "StoreSeatReply", False),
    "GetTopology": ("FIRST", "DIRECT", "TopologyReply", False),
    "GetTurn": ("SESSION", "QUERY", "TurnsReply", False),
    "GetTurnBudgets": ("SESSION", "QUERY", "TurnBudgetsReply", False),
    "GetUsage": ("USER", "QUERY", "UsageReply", False),
    "GetVersions": ("ALL", "DIRECT", "VersionsReply", False),
    "HoldUser": ("USER_ACTORS", "DIRECT", "UserHeld", False),
    "LeaveStore": ("ACTOR", "DIRECT", "Ack", False),
    "ListArrivals": ("ACTOR", "DIRECT", "Arrivals", False),
    "ListBatchItems": ("FIRST", "QUERY", "BatchItemsReply", False),
    "ListBatches": ("FIRST", "QUERY", "BatchesReply", False),
    "ListOpenTurns": ("ACTOR", "READ", "OpenTurnsReply | NotLeader", False),
    "ListPending": ("USER", "QUERY", "PendingReply", False),
    "ListSchedules": ("USER", "QUERY", "SchedulesReply", False),
    "ListSessionsRequest": ("USER", "QUERY", "SessionsReply", False),
    "ListStoreUsers": ("ACTOR", "DIRECT", "StoreUsers", False),
    "ListTurns": ("USER", "QUERY", "TurnsReply", False),
    "OpenStore": ("ALL", "DIRECT", "Ack", False),
    "OpenTurn": (
        "SESSION",
        "BEGIN",
        OPENED,
        False,
    ),
    "PassDueTime": ("SESSION", "BEGIN", "Ack", False),
    "PlaceUsers": ("ACTOR", "DIRECT", "Ack", False),
    "Poll": ("ACTOR", "DIRECT", "News", False),
    "PruneSessions": ("ACTOR", "DIRECT", "SessionsPruned", False),
    "ReadLog": ("SESSION", "QUERY", "LogPart", False),
    "ReadMessages": ("SESSION", "GO_ON", "MessagesRead", True),
    "ReadTurn": ("SESSION", "READ", "TurnRead", False),
    "ReadUserRows": ("ACTOR", "DIRECT", "UserRows", False),
    "ReleaseUser": ("ALL", "DIRECT", "Ack", False),
    "RememberSession": ("SESSION", "BEGIN", "Ack", False),
    "RemoveUser": ("USER", "DIRECT", "UserRemoved", False),
    "ReserveSpending": ("SESSION", "GO_ON", "MaySpend | AskForMore | DoWithout", False),
    "ResumeTurn": ("SESSION", "BEGIN", "TurnResumed | Ack | NotLeader", False),
    "RetryTurn": ("SESSION", "CHANGE", "TurnResumed | Ack | NotLeader | TurnRetried", False),
    "RewindRequest": ("SESSION", "CHANGE", "Ack", True),
    "SaveBatch": ("FIRST", "DIRECT", "Ack", False),
    "SearchMemory": ("USER", "READ", "MemoriesReply", False),
    "StartRun": ("SESSION", "BEGIN", "RunsReply", False),
    "SteerRun": ("SESSION", "BEGIN", "RunsReply", False),
    "AskParent": ("SESSION", "GO_ON", "Ack", False),
    "CancelRun": ("SESSION", "BEGIN", "RunsReply", False),
    "FindReader": ("SESSION", "READ", "MessageReader", False),
    "FindRuns": ("SESSION", "DIRECT", "RunsReply", False),
    "SendMessage": ("SESSION", "GO_ON", "Ack", False),
    "StageUserRows": ("ACTOR", "DIRECT", "Ack", False),
    "Stop": ("ALL", "DIRECT", "Ack", False),
    "Subscribe": ("SESSION", "READ", "Subscribed", False),
    "TakeStoreSeat": ("ACTOR", "DIRECT", "Ack", False),
    "TellPartial": ("SESSION", "READ", "Ack | TellAgain", False),
    "Unsubscribe": ("ACTOR", "DIRECT", "Ack", False),
    "UseVersions": ("ALL", "DIRECT", "Ack", False),
    "WatchStates": ("ACTOR", "DIRECT", "StatesWatched", False),
}
"""By name: the route, the lane, the classes of the replies, and whether it is sent once."""


def said_of(kind: type[Request[Any]]) -> tuple[str, str, str, bool]:
    return kind.route.name, kind.lane.name, " | ".join(reply.__name__ for reply in replies_to(kind)), kind.is_sent_once


def test_each_request_to_a_session_actor_is_as_in_the_table(tmp_path: Path) -> None:
    actor = SessionFixture(tmp_path).actor
    kinds = actor.handlers()
    assert {kind.__name__: said_of(kind) for kind in kinds} == REQUESTS


def session(user: str, updated_s: float) -> p.SessionInfo:
    return p.SessionInfo(key=SessionKey("app", user, "s"), updated_s=updated_s)


def turn(user: str, begun_s: float, state: str = "finished") -> TurnInfo:
    return TurnInfo(user_id=user, session_id="s", invocation_id=f"e-{user}", state=state, begun_s=begun_s)  # type: ignore[arg-type]


def users(limit: int | None, *pages: list[p.SessionInfo]) -> list[str]:
    joined = p.ListSessionsRequest(app="app", limit=limit).joined([p.SessionsReply(sessions=page) for page in pages])
    return [each.key.user for each in joined.sessions]


def test_sessions_of_all_stores_come_in_the_order_in_which_they_were_written() -> None:
    pages = [session("ada", 5.0), session("bob", 1.0)], [session("cyd", 3.0)]
    assert users(None, *pages) == ["ada", "cyd", "bob"]
    assert users(2, *pages) == ["ada", "cyd"]


def test_a_user_who_is_moved_meanwhile_is_listed_once() -> None:
    moved = session("ada", 5.0)
    assert users(3, [moved, session("bob", 1.0)], [moved, session("cyd", 3.0)]) == ["ada", "cyd", "bob"]
    turns = ListTurns(app="app", limit=9).merged([[turn("ada", 2.0)], [turn("ada", 2.0), turn("bob", 0.0, "waiting")]])
    assert [each.user_id for each in turns] == ["bob", "ada"]
