"""Requests of the memory of users."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.memory import MemoryEntry
from actors.messages.protocol.base import Ack, Message
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.session import SessionKey


class RememberSession(Request[Ack], frozen=True, kw_only=True):
    """Put the texts of a session into memory, in place of what memory has of it."""

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey


class ForgetSession(Request[Ack], frozen=True, kw_only=True):
    """Delete a session from memory. Its log stays."""

    route = Route.SESSION
    lane = Lane.BEGIN

    key: SessionKey


class MemoriesReply(Message, frozen=True, kw_only=True):
    """The entries found, the best match first."""

    entries: Sequence[MemoryEntry] = ()


class SearchMemory(Request[MemoriesReply], frozen=True, kw_only=True):
    """Search the memory of a user."""

    route = Route.USER
    lane = Lane.READ

    app: str
    user: str
    query: str
