"""The union of all messages, by which a decoder knows each of them from its tag."""

from __future__ import annotations

import msgspec

from actors.messages.protocol.base import Ack, ErrorReply, GetStatistics, Message, Statistics, Stop
from actors.messages.protocol.log import Append, Appended, Fetch, Fetched, TellAgain, TellPartial
from actors.messages.protocol.mcp import CallMcpTool, ListMcpTools, McpResult, McpToolList, StopMcpCall
from actors.messages.protocol.outcomes import Cancelled, Failed, Finished, Paused, Transfer
from actors.messages.protocol.rate_limits import AcquirePermit, PermitReply, ReleasePermit, RenewPermits
from actors.messages.protocol.runs import Invoke, RunChild, StopBranch, StopRun, TakeLlmCall
from actors.messages.protocol.sessions import (
    AppendEventRequest,
    CreateSessionRequest,
    DeleteSessionRequest,
    ForgetSession,
    GetSessionRequest,
    ListSessionsRequest,
    MemoriesReply,
    OpenStore,
    RememberSession,
    RewindRequest,
    SearchMemory,
    SessionReply,
    SessionsReply,
)
from actors.messages.protocol.subscriptions import News, Poll, ReadTurn, Subscribe, Subscribed, TurnRead, Unsubscribe
from actors.messages.protocol.turn_queries import (
    CountTurns,
    GetTurn,
    ListPending,
    ListTurns,
    LogPart,
    PendingReply,
    ReadLog,
    TurnsCounted,
    TurnsReply,
)
from actors.messages.protocol.turns import (
    AbandonRuns,
    AnnounceFirst,
    AnnounceRunner,
    CancelTurn,
    CloseTurn,
    FindTurn,
    GetTopology,
    InterruptFirst,
    ListOpenTurns,
    NothingToResume,
    OpenTurn,
    OpenTurnsReply,
    RecoverTurn,
    RecoverTurns,
    ResumeFirst,
    ResumeTurn,
    StartTurn,
    TopologyReply,
    TurnBegun,
    TurnFound,
    TurnJoined,
    TurnKept,
    TurnProgress,
    TurnResumed,
    TurnStarted,
)
from actors.messages.protocol.users import HoldUser, ReleaseUser, RemoveUser, UserHeld, UserRemoved

AnyMessage = (
    Finished
    | Transfer
    | Paused
    | Failed
    | Cancelled
    | Ack
    | ErrorReply
    | StartTurn
    | TurnStarted
    | CancelTurn
    | GetTopology
    | TopologyReply
    | FindTurn
    | TurnFound
    | OpenTurn
    | TurnBegun
    | TurnResumed
    | TurnJoined
    | InterruptFirst
    | ResumeFirst
    | AnnounceFirst
    | AnnounceRunner
    | ResumeTurn
    | TurnKept
    | NothingToResume
    | AbandonRuns
    | TurnProgress
    | ListOpenTurns
    | OpenTurnsReply
    | RecoverTurns
    | RecoverTurn
    | CloseTurn
    | Invoke
    | StopRun
    | RunChild
    | StopBranch
    | TakeLlmCall
    | Append
    | Appended
    | TellPartial
    | TellAgain
    | Fetch
    | Fetched
    | Subscribe
    | Subscribed
    | Poll
    | News
    | ListTurns
    | CountTurns
    | TurnsCounted
    | GetTurn
    | TurnsReply
    | ListPending
    | PendingReply
    | ReadLog
    | LogPart
    | ReadTurn
    | TurnRead
    | Unsubscribe
    | CreateSessionRequest
    | GetSessionRequest
    | ListSessionsRequest
    | DeleteSessionRequest
    | AppendEventRequest
    | RewindRequest
    | SessionReply
    | SessionsReply
    | RememberSession
    | ForgetSession
    | SearchMemory
    | MemoriesReply
    | OpenStore
    | HoldUser
    | UserHeld
    | RemoveUser
    | UserRemoved
    | ReleaseUser
    | AcquirePermit
    | PermitReply
    | ReleasePermit
    | RenewPermits
    | ListMcpTools
    | McpToolList
    | CallMcpTool
    | StopMcpCall
    | McpResult
    | GetStatistics
    | Statistics
    | Stop
)

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(AnyMessage)

decode_message = _decoder.decode
"""The message in some bytes. Raises msgspec.DecodeError for bytes that hold none, RecursionError for a nesting too deep."""
