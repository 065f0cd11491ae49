"""The turns service: `rt.turns` and `rt.aio.turns`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actors.errors.hints import explains_wrong_calls
from actors.layers.graphs.rules.shape import EdgeReason
from actors.layers.listing.client import count_turns, get_turn
from actors.layers.listing.messages import PendingCall, PendingReply, TurnCounts
from actors.layers.recording.messages import GetModelCalls, ModelCallsReply, RecordedCall
from actors.layers.recording.rules import MissingPartError, unpacked
from actors.messages import protocol as p
from actors.messages.llm import LlmRequest
from actors.messages.protocol.log import PackedCall
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.messages.turn_info import TurnInfo
from actors.rules.checks.ids import checked_id, checked_key
from runtime.driver.arguments import RunOptions, checked_number
from runtime.driver.engine_client import EngineClient
from runtime.driver.operation import AppOperation, LimitQuery
from runtime.driver.turns.bulk import BulkTurns
from runtime.driver.turns.description import TurnDescription, description_of
from runtime.driver.turns.finding import PAGE, Age, TurnQuery, checked_scope, found_turns, pending_page
from runtime.driver.turns.reports import FlowBoard, SelectionReason, TurnBoards, TurnEdges, events_of, reasons_of
from runtime.driver.turns.turn import OnLeave, Turn
from runtime.driver.waits import Awaited, M, waits
from runtime.observability.logs.kept import LogLine

Calls = list[PendingCall]
"""Calls that wait; the service has a method `list`."""

Records = list[RecordedCall]
"""Model calls that were recorded."""

Reasons = list[SelectionReason]
"""Why messages went where they did."""


class TurnsService(BulkTurns[M]):
    """Turns as data, and many turns at once.

    Args:
        topology: gives the tree; it may wait.
        answer: answers calls, see Runtime.answer.
    """

    def __init__(
        self,
        client: EngineClient,
        mode: type[M],
        topology: Callable[[], Topology],
        answer: Callable[..., Turn],
        edit: Callable[..., Turn],
    ) -> None:
        super().__init__(client, mode)
        self._topology = topology
        self._answer = answer
        self._edit = edit

    @explains_wrong_calls
    def edit(
        self,
        user_id: str,
        session_id: str,
        invocation_id: str,
        message: Any,
        *,
        run_config: RunOptions | None = None,
        keep: bool = False,
        on_leave: OnLeave = "cancel",
    ) -> Turn:
        """Replace the message of a turn by another one, and go on from there.

        The session is rewound to before that turn, and the new message begins a turn. Both are one step: whatever is lost, the
        session is as before, or the new turn runs.

        Args:
            message: see Runtime.run.
            keep: leave the session as it is: the turn runs in a fork of it, whose id is new. `turn.session_id` has it.

        Returns:
            The new turn. Iterating it, or its `result()`, raises what `rt.sessions.rewind` raises, or with `keep`
            `rt.sessions.fork`.

        Raises:
            InvalidIdError, InvalidMessageError, RequestError: an argument is wrong.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        return self._edit(user_id, session_id, invocation_id, message, run_config, on_leave, keep=keep)

    @waits
    async def list(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        state: str | None = None,
        limit: int = 100,
        before: TurnInfo | None = None,
        *,
        agent: str | None = None,
        error: str | None = None,
        invocation: str | None = None,
        version: str | None = None,
        since: Age | None = None,
        older_than: Age | None = None,
        text: str | None = None,
        failed_tools: bool = False,
    ) -> list[TurnInfo]:
        """List turns: those in line first, then the one that began last.

        Args:
            user_id: of that user only; None: of all users of the app.
            session_id: of that session of the user only.
            state: "waiting", "running", "paused", "finished", "failed" or "cancelled"; None: any.
            limit: at most so many.
            before: the last turn of an earlier list, whose next page is wanted. Turns in line are on the first page only.
            agent, error, invocation, version, since, older_than, text, failed_tools: only turns that fit, see TurnQuery.

        Raises:
            RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        which = TurnQuery(
            user_id=user_id,
            session_id=session_id,
            state=state,
            agent=agent,
            error=error,
            invocation=invocation,
            version=version,
            since=since,
            older_than=older_than,
            text=text,
            failed_tools=failed_tools,
        )
        return await found_turns(self._client, which, limit, before)

    @waits
    async def counts(self) -> TurnCounts:
        """Count the turns of the app that wait in line, run and are paused. Raises StoreError."""
        return await count_turns(self._client.session, self._client.app_name)

    @waits
    async def resume(self) -> int:
        """Go on with all turns that are open in the store, also those that an earlier deployment has left.

        They go on by themselves when they are asked for; this asks for all of them. What runs already runs on.

        Returns:
            How many turns were open. They run when it returns.

        Raises:
            DrainingError: the deployment is about to be stopped.
            StoreError: the store cannot be read, or does not take that a turn goes on.
        """
        counts = await count_turns(self._client.session, self._client.app_name)
        await self._client.engine.runner.ask(p.ResumeTurns())
        return counts.running

    @waits
    async def get(self, user_id: str, session_id: str, invocation_id: str) -> TurnInfo:
        """Where a turn is. Raises InvocationNotFoundError, SessionNotFoundError, InvalidIdError, StoreError."""
        _, turn = await self._turn(user_id, session_id, invocation_id)
        return turn

    @waits
    async def describe(self, user_id: str, session_id: str, invocation_id: str) -> TurnDescription:
        """All that is known of a turn: what its agents have done, and what it is doing, or waits for.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn, or session.
            InvalidIdError: an id is wrong.
            StoreError: the store cannot be read.
        """
        key = checked_key(self._client.app_name, user_id, session_id)
        return await description_of(self._client.engine, key, checked_id("invocation id", invocation_id))

    @waits
    async def requests(self, user_id: str, session_id: str, invocation_id: str, limit: int | None = None) -> Records:
        """List what models were asked in a turn, if `Settings.record_requests` had it recorded.

        Args:
            limit: at most so many; None: all.

        Returns:
            The model calls of all agents of the turn, also those that failed, in the order in which they began; none if the turn
            was not recorded.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn, or session.
            RequestError, InvalidIdError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        return await self._recorded(key, turn.invocation_id, limit)

    @waits
    async def why(self, user_id: str, session_id: str, invocation_id: str) -> Reasons:
        """Tell for each message of a user in a turn why it went to the agent that got it.

        The log says who had spoken, and the tree as it is now who may get messages.

        Raises:
            InvocationNotFoundError, SessionNotFoundError, InvalidIdError: there is no such turn.
            StoreError: the log cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        # A program that has joined asks for the tree, and waits for it.
        return await reasons_of(self._client.session, key, turn, await asyncio.to_thread(self._topology))

    @waits
    async def pending(self, user_id: str | None = None, session_id: str | None = None, limit: int = 100) -> Calls:
        """List the calls that wait for a person: see Runtime.pending."""
        user, session = checked_scope(user_id, session_id)
        limit = checked_number("limit", limit)
        found: list[PendingCall] = []
        reply = PendingReply()
        while len(found) < limit:
            reply = await pending_page(self._client, user, session, reply.next)
            found += reply.calls
            if reply.next is None:
                break
        return found[:limit]

    @waits
    async def log_lines(self, user_id: str, session_id: str, invocation_id: str) -> Sequence[LogLine]:
        """List what agents have logged and printed in a turn, as far as the deployment keeps it, the oldest first.

        On Ray that is the newest 1 MiB of each Runner and Session actor; on the local engine the newest 2,000 records of the
        program, without what was printed. A turn that is in the store for longer has no lines any more.

        Raises:
            InvocationNotFoundError, SessionNotFoundError, InvalidIdError: there is no such turn.
            StoreError: the store cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        return await self._client.engine.log_lines((key, turn.invocation_id))

    @waits
    async def edges(self, user_id: str, session_id: str, invocation_id: str) -> Sequence[EdgeReason]:
        """Tell for each edge that graphs have come to in a turn why it was taken, or was not.

        The log says which nodes ended and what they said, and the tree as it is now which edges there are.

        Returns:
            The edges of all runs of graphs, in the order in which the nodes before them ended.

        Raises:
            InvocationNotFoundError, SessionNotFoundError, InvalidIdError: there is no such turn.
            StoreError: the log cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        # A program that has joined asks for the tree, and waits for it.
        edges = TurnEdges(await asyncio.to_thread(self._topology))
        async for event in events_of(self._client.session, key, turn):
            edges.add(event)
        return edges.reasons

    @waits
    async def boards(self, user_id: str, session_id: str, invocation_id: str) -> Sequence[FlowBoard]:
        """List the boards of the flows that a turn has run: their tasks, what each needs, who works on it, and its result.

        Raises:
            InvocationNotFoundError, SessionNotFoundError, InvalidIdError: there is no such turn.
            StoreError: the log cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        boards = TurnBoards()
        async for event in events_of(self._client.session, key, turn):
            boards.add(event)
        return boards.boards(runs=turn.state == "running")

    async def _turn(self, user_id: str, session_id: str, invocation_id: str) -> tuple[SessionKey, TurnInfo]:
        key = checked_key(self._client.app_name, user_id, session_id)
        checked = checked_id("invocation id", invocation_id)
        return key, await get_turn(self._client.session, key, checked)

    async def _recorded(self, key: SessionKey, invocation_id: str, limit: int | None) -> Records:
        left = checked_number("limit", limit) if limit is not None else None
        found: list[RecordedCall] = []
        after: tuple[float, str] | None = None
        while left is None or len(found) < left:
            page = PAGE if left is None else min(PAGE, left - len(found))
            message = GetModelCalls(key=key, invocation_id=invocation_id, after=after, limit=page)
            reply = await self._client.session.ask(message)
            found += recorded_calls(invocation_id, reply)
            if not reply.more or not reply.calls:
                break
            last = reply.calls[-1].call
            after = last.begun_s, last.id
        return found


GONE = "parts of it were deleted, or are stored no more"
"""Why a request that was recorded is not there."""


def recorded_calls(invocation_id: str, reply: ModelCallsReply) -> list[RecordedCall]:
    """The model calls in a reply about a turn."""
    parts = {part.digest: part.raw for part in reply.parts}
    return [_recorded(invocation_id, stored.seq, stored.call, parts) for stored in reply.calls]


def _recorded(invocation_id: str, seq: int, call: PackedCall, parts: dict[bytes, bytes]) -> RecordedCall:
    request: LlmRequest | None = None
    omitted = call.omitted
    if call.request is not None:
        try:
            request = unpacked(call.request, parts)
        except (MissingPartError, msgspec.DecodeError):
            omitted = GONE
    return RecordedCall(
        invocation_id=invocation_id,
        agent=call.agent,
        event_id=call.id,
        seq=seq,
        begun_s=call.begun_s,
        ended_s=call.ended_s,
        streamed=call.streamed,
        attempts=call.attempts,
        usage=call.usage,
        error=call.error,
        request=request,
        omitted=omitted,
    )


class RequestList(msgspec.Struct, frozen=True, kw_only=True):
    """Model calls of a turn, in the order of their answers in the log."""

    calls: Sequence[RecordedCall]


class LogLineList(msgspec.Struct, frozen=True, kw_only=True):
    """What agents have logged and printed in a turn, the oldest first, as far as it is kept."""

    lines: Sequence[LogLine]


async def list_requests(turns: TurnsService[Awaited], query: LimitQuery, user_id: str, session: str, turn: str) -> RequestList:
    """List the model calls of a turn with what was asked: as far as it was recorded. For administrators."""
    return RequestList(calls=await turns.requests(user_id, session, turn, query.limit))


async def describe_turn(turns: TurnsService[Awaited], user_id: str, session: str, turn: str) -> TurnDescription:
    """Describe a turn: what it does or waits for, what has failed, and what each agent has done. For administrators."""
    return await turns.describe(user_id, session, turn)


async def list_log_lines(turns: TurnsService[Awaited], user_id: str, session: str, turn: str) -> LogLineList:
    """List what agents have logged and printed in a turn, as far as the deployment keeps it. For administrators."""
    return LogLineList(lines=await turns.log_lines(user_id, session, turn))


_TURN = "GET /v1/apps/{app}/sessions/{session}/turns/{turn}"

OPERATIONS = [
    AppOperation(f"{_TURN}/description", describe_turn),
    AppOperation(f"{_TURN}/requests", list_requests),
    AppOperation(f"{_TURN}/log", list_log_lines),
]
"""What operators may read of a turn."""
