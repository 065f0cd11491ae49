"""Defects of moves: what loses a user, or something that a user was told is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any
from unittest import mock

import msgspec

from actors.actor import Handler
from actors.errors import RaygroveError
from actors.messages import protocol as p
from actors.refs.session import SessionRef
from actors.rules.placing.copies import digest_with
from actors.rules.placing.owners import session_key_of
from actors.session.log.user_holds import UserHolds
from actors.session.placing.gate import UserGate
from actors.session.placing.placements import UserPlacements
from actors.session.users import UserDeletion
from runtime.stores.sql.placing import moving_store


def users_leave_by_any_hold() -> AbstractContextManager[object]:
    """LeaveStore asks whether the user is held, and not by which move."""
    return mock.patch.object(UserHolds, "is_held_by", lambda self, app, user, token: self.has_user(app, user))


def holds_are_released_by_anyone() -> AbstractContextManager[object]:
    """A move that ends has let go of the user, whichever move holds the user now."""

    async def released(self: UserDeletion, message: p.ReleaseUser) -> p.Ack:
        holds = self._parts.user_holds
        hold = holds._holds.get((message.app, message.user))
        for token in list(hold.until_s) if hold is not None else ():
            holds.release(message.app, message.user, token)
        return p.Ack()

    return mock.patch.object(UserDeletion, "release_user", released)


def what_the_other_store_keeps_is_not_looked_at() -> AbstractContextManager[object]:
    """The digest with which a user leaves is that of what was sent to the other store."""
    sent: dict[str, bytes] = {}
    step: Any = SessionRef.move_step
    ask: Any = SessionRef.arrival_digest

    async def noted(self: SessionRef, message: Any) -> None:
        await step(self, message)
        if isinstance(message, p.StageUserRows):
            sent[message.token] = digest_with(sent.get(message.token, b""), message.raw)

    async def of_sent(self: SessionRef, message: p.GetArrivalDigest) -> bytes:
        with suppress(RaygroveError):
            await ask(self, message)
        return sent.get(message.token, b"")

    patches = ExitStack()
    patches.enter_context(mock.patch.object(SessionRef, "move_step", noted))
    patches.enter_context(mock.patch.object(SessionRef, "arrival_digest", of_sent))
    return patches


def rows_are_only_counted() -> AbstractContextManager[object]:
    """What the other store keeps is compared by the number of rows."""

    def counted(before: bytes, part: bytes) -> bytes:
        return (int.from_bytes(before, "big") + len(msgspec.msgpack.decode(part))).to_bytes(8, "big")

    return mock.patch.object(moving_store, "digest_with", counted)


def changes_go_past_holds() -> AbstractContextManager[object]:
    """Messages that change something look at no hold."""

    def changing(self: UserGate, handler: Handler, *, goes_on: bool) -> Handler:
        async def handle(message: p.Message) -> p.Message:
            key = session_key_of(message)
            assert key is not None
            await self._check(message, key)
            return await handler(message)

        return handle

    return mock.patch.object(UserGate, "_changing", changing)


def moves_share_a_user() -> AbstractContextManager[object]:
    """A move holds its user beside others."""
    hold: Any = UserHolds.hold_user

    def beside(self: UserHolds, app: str, user: str, token: str = "", *, alone: bool = False) -> bool:
        return bool(hold(self, app, user, token))

    return mock.patch.object(UserHolds, "hold_user", beside)


def where_users_are_is_not_asked_again() -> AbstractContextManager[object]:
    """A Session actor goes by what it knew of its users after a step that has failed, and was done."""
    return mock.patch.object(UserPlacements, "forget")


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        users_leave_by_any_hold,
        holds_are_released_by_anyone,
        what_the_other_store_keeps_is_not_looked_at,
        rows_are_only_counted,
        changes_go_past_holds,
        moves_share_a_user,
        where_users_are_is_not_asked_again,
    )
}
"""All of them, by name."""
