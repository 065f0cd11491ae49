"""Turns and logs as data: driver to Session actor."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.json_types import JsonObject
from actors.messages.protocol.base import Lane, Message, Request, Route
from actors.messages.session import SessionKey
from actors.messages.shown import Shown
from actors.messages.turn_info import TurnInfo, TurnStateName


class PendingCall(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True):
    """A function call that waits for a person's answer.

    Attributes:
        user_id, session_id, invocation_id: the turn.
        call_id: what the answer names.
        name: the function.
        args: its arguments.
        agent: the agent that made the call.
        is_confirmation: the function runs once the user agrees: the answer is `{"confirmed": true}` or `{"confirmed": false}`.
            Otherwise the answer is the function's result, unless there is a question.
        question: what the function asks in the middle of its call, such as a server's elicitation; the answer is for it.
        seq: position of the event with the call.
        asked_s: the time of that event, in seconds since the epoch.
    """

    user_id: str
    session_id: str
    invocation_id: str
    call_id: str
    name: str
    args: JsonObject = {}
    agent: str = ""
    is_confirmation: bool = False
    question: JsonObject | None = None
    seq: int = 0
    asked_s: float = 0.0


TURN_STATES: tuple[TurnStateName, ...] = ("waiting", "running", "paused", "finished", "failed", "cancelled")


class TurnMatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What turns are looked for, beside whose they are, their state and their age.

    Attributes:
        agent: that `TurnInfo.agent` names; "": any.
        error: a part of `TurnInfo.error`; "": any, and none.
        invocation: the beginning of the turn's id.
        version: that `TurnInfo.version` names; "": any.
        text: a part of what the user or an agent has said in it; "": any. A turn in line has said nothing yet.
        failed_tools: only turns in which a call of a tool has failed.
    """

    agent: str = ""
    error: str = ""
    invocation: str = ""
    version: str = ""
    text: str = ""
    failed_tools: bool = False


ANY_TURN = TurnMatch()
"""Every turn fits it."""


class TurnCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many turns of an app have not ended, by where they are: see TurnInfo."""

    waiting: int
    running: int
    paused: int

    @property
    def open(self) -> int:
        """Those that run or wait in line."""
        return self.waiting + self.running


class TurnsReply(Message, frozen=True, kw_only=True):
    """The turns asked for.

    Attributes:
        next: where to ask on, as `before`, when so many turns did not fit that the rest was not looked at; else None.
    """

    turns: Sequence[TurnInfo] = ()
    next: tuple[float, str] | None = None


class ListTurns(Request[TurnsReply], frozen=True, kw_only=True):
    """List turns, those in line first, then the one that began last.

    Attributes:
        user: of that user only; None: of all users.
        session: of that session of the user only; None: of all sessions.
        state: in that state only; "": in any.
        limit: at most so many.
        before: only turns after this one in the list, by its `begun_s` and invocation id: none in line.
        since_s: only turns that began at this time or later, in Unix seconds; and those in line.
        match: only turns that fit it.
    """

    route = Route.USER
    lane = Lane.QUERY

    app: str
    user: str | None = None
    session: str | None = None
    state: str = ""
    limit: int = 100
    before: tuple[float, str] | None = None
    since_s: float = 0.0
    match: TurnMatch = ANY_TURN

    def merged(self, found: Sequence[Sequence[TurnInfo]]) -> list[TurnInfo]:
        """Those of all stores. A user who is moved meanwhile may be in two of them, and is listed once."""
        once = {(turn.user_id, turn.session_id, turn.invocation_id): turn for turns in found for turn in turns}.values()
        waiting = [turn for turn in once if turn.state == "waiting"]
        others = [turn for turn in once if turn.state != "waiting"]
        others.sort(key=lambda turn: (turn.begun_s, turn.invocation_id), reverse=True)
        return [*waiting, *others][: self.limit]


class TurnsCounted(Message, frozen=True, kw_only=True):
    """How many turns of an app have not ended.

    Attributes:
        in_line: they wait in line.
        continued: so many of them have begun before: they are paused, and an answer waits.
        running, paused: their record says so.
    """

    in_line: int
    continued: int
    running: int = 0
    paused: int = 0


class CountTurns(Request[TurnsCounted], frozen=True, kw_only=True):
    """Count the turns of an app that have not ended.

    Attributes:
        in_line_only: only those in line, which each Session actor knows of its own sessions.
    """

    route = Route.ACTOR
    lane = Lane.QUERY

    app: str
    in_line_only: bool = False


class GetTurn(Request[TurnsReply], frozen=True, kw_only=True):
    """Ask where a turn is. The reply is TurnsReply with that turn."""

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    invocation_id: str


class PendingReply(Message, frozen=True, kw_only=True):
    """The calls that wait.

    Attributes:
        begun_s: of each call when its turn began, where the calls of all of a user's sessions, or of all users, were asked for.
        next: where to ask on, as `before`; None when there are no more turns.
    """

    calls: Sequence[PendingCall] = ()
    begun_s: Sequence[float] = ()
    next: tuple[float, str] | None = None


class ListPending(Request[PendingReply], frozen=True, kw_only=True):
    """List the calls at which paused turns wait, of the newest turn first.

    Attributes:
        user, session: as in ListTurns.
        invocation_id: of that turn of the session only; "": of all.
        with_open: also the unanswered long-running calls of the session's open turn, which may answer themselves yet.
        limit: look at so many paused turns at most.
        before: as in ListTurns.
    """

    route = Route.USER
    lane = Lane.QUERY

    app: str
    user: str | None = None
    session: str | None = None
    invocation_id: str = ""
    with_open: bool = False
    limit: int = 100
    before: tuple[float, str] | None = None

    def joined(self, replies: Sequence[PendingReply]) -> PendingReply:
        """Those of all stores, up to the end of that page which ends first. What comes after it is on the next page."""
        end = max((reply.next for reply in replies if reply.next is not None), default=None)
        found = [
            (begun_s, call)
            for reply in replies
            for begun_s, call in zip(reply.begun_s, reply.calls, strict=True)
            if end is None or (begun_s, call.invocation_id) >= end
        ]
        # Calls of one turn stay in their order.
        found.sort(key=lambda each: (each[0], each[1].invocation_id), reverse=True)
        return PendingReply(calls=[call for _, call in found], begun_s=[begun_s for begun_s, _ in found], next=end)


class LiveRun(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A run of an agent that is under way.

    Attributes:
        agent: the agent.
        branch: the parallel branch it runs on; "" outside of any.
        asked_by: the agent that runs it, or has it as a tool; "" where that is the turn itself.
        begun_s: when the run began, in seconds since the epoch; after a loss, when it was begun again.
        has_process: its actor lives; False while it waits for a process.
    """

    agent: str
    branch: str = ""
    asked_by: str = ""
    begun_s: float = 0.0
    has_process: bool = True


class RunningTurnReply(Message, frozen=True, kw_only=True):
    """What goes on in a turn. One that does not run there has no runs.

    Attributes:
        runs: those under way, the oldest first.
    """

    runs: Sequence[LiveRun] = ()
    transfers: int = 0
    llm_calls: int = 0


class GetRunningTurn(Request[RunningTurnReply], frozen=True, kw_only=True):
    """Ask a Runner what goes on in a turn that it runs."""

    route = Route.SESSION

    key: SessionKey
    invocation_id: str
