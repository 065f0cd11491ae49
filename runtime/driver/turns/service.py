"""The turns service: `rt.turns` and `rt.aio.turns`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from actors.errors.hints import explains_wrong_calls
from actors.layers.listing.client import count_turns
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
from runtime.driver.arguments import checked_number
from runtime.driver.engine_client import EngineClient
from runtime.driver.reports.service import TurnReports
from runtime.driver.run_options import RunOptions
from runtime.driver.turns.bulk import BulkTurns
from runtime.driver.turns.description import describe_turn
from runtime.driver.turns.finding import PAGE, Age, TurnQuery, checked_scope, found_turns, pending_page
from runtime.driver.turns.reasons import SelectionReason, reasons_of
from runtime.driver.turns.turn import OnLeave, Turn
from runtime.driver.turns.turn_description import TurnDescription
from runtime.driver.waits import M, waits

Calls = list[PendingCall]
"""Calls that wait; the service has a method `list`."""

Records = list[RecordedCall]
"""Model calls that were recorded."""

Reasons = list[SelectionReason]
"""Why messages went where they did."""


class TurnsService(TurnReports[M], BulkTurns[M]):
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
        super().__init__(client, mode, topology)
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
        return await describe_turn(self._client.engine, key, checked_id("invocation id", invocation_id))

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
