"""The turns service: `rt.turns` and `rt.aio.turns`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from actors.errors import RequestError
from actors.messages import protocol as p
from actors.messages.event import now_s
from actors.messages.llm.recorded import RecordedCall
from actors.messages.operating.turn_description import TurnDescription
from actors.messages.session import SessionKey
from actors.messages.turn_info import TURN_STATES, PendingCall, SelectionReason, TurnCounts, TurnInfo, TurnMatch
from actors.rules.checks.arguments import checked_age, checked_choice, checked_number, checked_text
from actors.rules.checks.ids import checked_id, checked_key
from runtime.driver.reports.service import TurnReports
from runtime.driver.turns.description import describe_turn
from runtime.driver.turns.reasons import reasons_of
from runtime.driver.turns.rebuilt import with_rebuilt
from runtime.driver.turns.recorded import recorded_calls
from runtime.driver.waits import M, waits

PAGE = 1_000
"""Turns that are asked for at once."""

Age = timedelta | float
"""A time span; a number is one of seconds."""

Calls = list[PendingCall]
"""Calls that wait; the service has a method `list`."""

Records = list[RecordedCall]
"""Model calls that were recorded."""

Reasons = list[SelectionReason]
"""Why messages went where they did."""


class TurnsService(TurnReports[M]):
    """Turns as data."""

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
            agent: only turns whose `agent` it is.
            error: only turns with this in their `error`, in small or capital letters.
            invocation: only turns whose ids begin with it.
            version: only turns that run or ran by this version of the tree: see Runtime.update.
            since: only turns that began at most so long ago, a timedelta or seconds; and those in line.
            older_than: only turns that began longer ago; none in line.
            text: only turns in which the user or an agent has said this, in small or capital letters; none in line. The events of
                all turns that fit otherwise are read for it.
            failed_tools: only turns in which a call of a tool has failed.

        Raises:
            RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        match = _match(agent, error, invocation, version, text, failed_tools=failed_tools)
        user, session = _checked_scope(user_id, session_id)
        wanted = checked_choice("state", state, TURN_STATES) if state is not None else ""
        if before is not None and not isinstance(before, TurnInfo):
            raise RequestError(f"before must be a TurnInfo of an earlier list, not {type(before).__name__}")
        left = checked_number("limit", limit)
        since_s = now_s() - checked_age("since", since) if since is not None else 0.0
        places = [_place(before)] if before is not None else []
        if older_than is not None:
            # Turns are listed from the newest on: those that are older begin after this place.
            places.append((now_s() - checked_age("older_than", older_than), ""))
        after = min(places, default=None)
        found: list[TurnInfo] = []
        while left > 0:
            message = p.ListTurns(
                app=self._client.app_name,
                user=user,
                session=session,
                state=wanted,
                limit=min(left, PAGE),
                before=after,
                since_s=since_s,
                match=match,
            )
            page = await self._client.session.list_turns(message)
            found += page
            left -= len(page)
            if len(page) < message.limit or page[-1].state == "waiting":
                break
            after = _place(page[-1])
        return found

    @waits
    async def counts(self) -> TurnCounts:
        """Count the turns of the app that wait in line, run and are paused. Raises StoreError."""
        return await self._client.session.count_turns(self._client.app_name)

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
        counts = await self._client.session.count_turns(self._client.app_name)
        await self._client.engine.runner.resume_turns()
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
    async def requests(
        self, user_id: str, session_id: str, invocation_id: str, limit: int | None = None, *, rebuild: bool = True
    ) -> Records:
        """List what models were asked in a turn: as `Settings.record_requests` has recorded it, or built again from the log.

        Args:
            limit: at most so many; None: all.
            rebuild: with calls that were not recorded. Those have `rebuilt`, and their request where the log, and the agents as
                they are, say exactly what it was; else `omitted` says why they do not.

        Returns:
            The model calls of all agents of the turn, in the order of their answers in the log; with `rebuild=False` the one that
            began first first. Calls that have failed are among them only where they were recorded.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn, or session.
            RequestError, InvalidIdError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        recorded = await self._recorded(key, turn.invocation_id, limit)
        return await with_rebuilt(self._client.engine, key, turn, recorded, limit) if rebuild else recorded

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
        user, session = _checked_scope(user_id, session_id)
        limit = checked_number("limit", limit)
        found: list[PendingCall] = []
        after = None
        while len(found) < limit:
            message = p.ListPending(app=self._client.app_name, user=user, session=session, before=after)
            reply = await self._client.session.list_pending(message)
            found += reply.calls
            after = reply.next
            if after is None:
                break
        return found[:limit]

    async def _recorded(self, key: SessionKey, invocation_id: str, limit: int | None) -> Records:
        left = checked_number("limit", limit) if limit is not None else None
        found: list[RecordedCall] = []
        after: tuple[float, str] | None = None
        while left is None or len(found) < left:
            page = PAGE if left is None else min(PAGE, left - len(found))
            message = p.GetModelCalls(key=key, invocation_id=invocation_id, after=after, limit=page)
            reply = await self._client.session.get_model_calls(message)
            found += recorded_calls(invocation_id, reply)
            if not reply.more or not reply.calls:
                break
            last = reply.calls[-1].call
            after = last.begun_s, last.id
        return found


def _checked_scope(user_id: str | None, session_id: str | None) -> tuple[str | None, str | None]:
    if session_id is not None and user_id is None:
        raise RequestError("session_id names a session of a user: give user_id, too")
    user = checked_id("user id", user_id) if user_id is not None else None
    return user, checked_id("session id", session_id) if session_id is not None else None


def _match(
    agent: str | None, error: str | None, invocation: str | None, version: str | None, text: str | None, *, failed_tools: bool
) -> TurnMatch:
    given = {"agent": agent, "error": error, "invocation": invocation, "version": version, "text": text}
    texts = {name: checked_text(name, value) for name, value in given.items() if value is not None}
    return TurnMatch(**texts, failed_tools=failed_tools)


def _place(turn: TurnInfo) -> tuple[float, str]:
    """Where a turn stands in a list."""
    return turn.begun_s, turn.invocation_id
