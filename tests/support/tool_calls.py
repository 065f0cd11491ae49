"""A feature that counts the tool calls of users: an extension of turns, and a service. The core does not know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from actors.actor import Handlers
from actors.interfaces.stores import TurnFilter
from actors.layers.services import EXTENSIONS, all_services
from actors.messages.protocol.base import Lane, Message, Request, Route
from actors.session.actor import SessionActor
from actors.session.environment import SessionEnvironment
from actors.session.log.event_scan import EventScan
from actors.session.log.open_turn import TurnExtension
from actors.session.service import SessionParts, SessionService


class ToolCallsReply(Message, frozen=True, kw_only=True):
    """Reply to CountToolCalls: how many there were."""

    calls: int


class CountToolCalls(Request[ToolCallsReply], frozen=True, kw_only=True):
    """Ask how many calls of tools the turns of a user have made."""

    route = Route.USER
    lane = Lane.QUERY

    app: str
    user: str


class ToolCalls(TurnExtension):
    """Counts the calls of one turn."""

    name: ClassVar[str] = "tool_calls"
    calls: int = 0

    def fold(self, event: EventScan, seq: int) -> None:
        self.calls += len(event.calls)

    def forget_events(self) -> None:
        self.calls = 0


class ToolCallCounts(SessionService):
    """Answers CountToolCalls."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    def handlers(self) -> Handlers:
        return {CountToolCalls: self.count}

    async def count(self, message: CountToolCalls) -> ToolCallsReply:
        """Add up the calls of a user's turns. Raises StoreError."""
        calls = 0
        for key, row in await self._parts.reader.turns(TurnFilter(app=message.app, user=message.user)):
            # The record of an open turn is not stored with each event.
            log = await self._parts.logs.load(key) if row.status == "running" else None
            turn = log.turn if log is not None and log.open_id() == row.invocation_id else None
            calls += ToolCalls.of(turn or self._parts.reader.turn_of(row)).calls
        return ToolCallsReply(calls=calls)


def services(parts: SessionParts) -> Sequence[SessionService]:
    """All services, and this one."""
    return (*all_services(parts), ToolCallCounts(parts))


def session_actor(environment: SessionEnvironment) -> SessionActor:
    """A Session actor with the feature."""
    return SessionActor(environment, services=services, extensions=(*EXTENSIONS, ToolCalls))
