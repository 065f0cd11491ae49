"""The turns service: `rt.turns` and `rt.aio.turns` have the same methods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.errors import RequestError
from actors.errors.calls import explains_all_wrong_calls
from actors.messages import protocol as p
from actors.messages.topology import Topology
from actors.messages.turn_info import TURN_STATES, PendingCall, SelectionReason, TurnCounts, TurnInfo
from actors.rules.checks.arguments import checked_choice, checked_number
from actors.rules.checks.ids import checked_id, checked_key
from runtime.driver.engine_client import EngineClient
from runtime.driver.turns.reasons import reasons_of

PAGE = 1_000
"""Turns that are asked for at once."""

Calls = list[PendingCall]
"""Calls that wait; the services have a method `list`."""

Reasons = list[SelectionReason]
"""Why messages went where they did."""


@explains_all_wrong_calls
class _Turns:
    """The requests to the Session actors, as coroutines for the portal's loop."""

    def __init__(self, client: EngineClient, topology: Callable[[], Topology]) -> None:
        self._client = client
        self._topology = topology

    async def _list(
        self, user_id: str | None, session_id: str | None, state: str | None, limit: int, before: TurnInfo | None
    ) -> list[TurnInfo]:
        user, session = _checked_scope(user_id, session_id)
        wanted = checked_choice("state", state, TURN_STATES) if state is not None else ""
        if before is not None and not isinstance(before, TurnInfo):
            raise RequestError(f"before must be a TurnInfo of an earlier list, not {type(before).__name__}")
        left = checked_number("limit", limit)
        after = _place(before) if before is not None else None
        found: list[TurnInfo] = []
        while left > 0:
            message = p.ListTurns(
                app=self._client.app_name, user=user, session=session, state=wanted, limit=min(left, PAGE), before=after
            )
            page = await self._client.session.list_turns(message)
            found += page
            left -= len(page)
            if len(page) < message.limit or page[-1].state == "waiting":
                break
            after = _place(page[-1])
        return found

    async def _counts(self) -> TurnCounts:
        return await self._client.session.count_turns(self._client.app_name)

    async def _get(self, user_id: str, session_id: str, invocation_id: str) -> TurnInfo:
        key = checked_key(self._client.app_name, user_id, session_id)
        checked = checked_id("invocation id", invocation_id)
        return await self._client.session.get_turn(p.GetTurn(key=key, invocation_id=checked))

    async def _why(self, user_id: str, session_id: str, invocation_id: str) -> list[SelectionReason]:
        turn = await self._get(user_id, session_id, invocation_id)
        # A program that has joined asks for the tree, and waits for it.
        topology = await asyncio.to_thread(self._topology)
        key = checked_key(self._client.app_name, user_id, session_id)
        return await reasons_of(self._client.session, key, turn, topology)

    async def _pending(self, user_id: str | None, session_id: str | None, limit: int) -> list[PendingCall]:
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


def _checked_scope(user_id: str | None, session_id: str | None) -> tuple[str | None, str | None]:
    if session_id is not None and user_id is None:
        raise RequestError("session_id names a session of a user: give user_id, too")
    user = checked_id("user id", user_id) if user_id is not None else None
    return user, checked_id("session id", session_id) if session_id is not None else None


def _place(turn: TurnInfo) -> tuple[float, str]:
    """Where a turn stands in a list."""
    return turn.begun_s, turn.invocation_id


@explains_all_wrong_calls
class TurnsService(_Turns):
    """Turns as data: `rt.turns`."""

    def list(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        state: str | None = None,
        limit: int = 100,
        before: TurnInfo | None = None,
    ) -> list[TurnInfo]:
        """List turns: those in line first, then the one that began last.

        Args:
            user_id: of that user only; None: of all users of the app.
            session_id: of that session of the user only.
            state: "waiting", "running", "paused", "finished", "failed" or "cancelled"; None: any.
            limit: at most so many.
            before: the last turn of an earlier list, whose next page is wanted. Turns in line are on the first page only.

        Raises:
            RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        return self._client.run(self._list(user_id, session_id, state, limit, before))

    def counts(self) -> TurnCounts:
        """Count the turns of the app that wait in line, run and are paused. Raises StoreError."""
        return self._client.run(self._counts())

    def get(self, user_id: str, session_id: str, invocation_id: str) -> TurnInfo:
        """Where a turn is. Raises InvocationNotFoundError, SessionNotFoundError, InvalidIdError, StoreError."""
        return self._client.run(self._get(user_id, session_id, invocation_id))

    def why(self, user_id: str, session_id: str, invocation_id: str) -> Reasons:
        """Tell for each message of a user in a turn why it went to the agent that got it.

        The log says who had spoken, and the tree as it is now who may get messages.

        Raises:
            InvocationNotFoundError, SessionNotFoundError, InvalidIdError: there is no such turn.
            StoreError: the log cannot be read.
        """
        return self._client.run(self._why(user_id, session_id, invocation_id))

    def pending(self, user_id: str | None = None, session_id: str | None = None, limit: int = 100) -> Calls:
        """List the calls that wait for a person: see Runtime.pending."""
        return self._client.run(self._pending(user_id, session_id, limit))


@explains_all_wrong_calls
class AsyncTurnsService(_Turns):
    """Turns as data, for callers on an event loop: `rt.aio.turns`. See TurnsService."""

    async def list(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        state: str | None = None,
        limit: int = 100,
        before: TurnInfo | None = None,
    ) -> list[TurnInfo]:
        """List turns: those in line first, then the one that began last."""
        return await self._client.run_async(self._list(user_id, session_id, state, limit, before))

    async def counts(self) -> TurnCounts:
        """Count the turns of the app that wait in line, run and are paused."""
        return await self._client.run_async(self._counts())

    async def get(self, user_id: str, session_id: str, invocation_id: str) -> TurnInfo:
        """Where a turn is."""
        return await self._client.run_async(self._get(user_id, session_id, invocation_id))

    async def why(self, user_id: str, session_id: str, invocation_id: str) -> Reasons:
        """Tell for each message of a user in a turn why it went to the agent that got it."""
        return await self._client.run_async(self._why(user_id, session_id, invocation_id))

    async def pending(self, user_id: str | None = None, session_id: str | None = None, limit: int = 100) -> Calls:
        """List the calls that wait for a person."""
        return await self._client.run_async(self._pending(user_id, session_id, limit))
