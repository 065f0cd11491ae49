"""Moves a user from one store of a deployment to another one, through the actors.

Rules of this file:

- The user is held: nothing of the user is under way, and what comes waits. A user with turns that run or wait is waited for, and
  so is another program that moves or deletes the user.
- The other store keeps all that there is first. When it keeps what the store of now has, one step of that store removes it and
  notes where the user is, and the user is in the other store from that step on, whatever is lost afterwards: the first request,
  or the next start, has it write what it keeps.
- A move has a token. In the store of now the token has the user held, and only its holder can take the last step. In the other
  one it names what is kept: a move that comes after one that has ended names that one, so of two that are late one is refused.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from actors.errors import RequestError, StoreError, UserArrivingError, UserElsewhereError
from actors.layers.listing.client import list_turns
from actors.layers.listing.messages import ListTurns
from actors.layers.placing.messages import (
    AdmitUser,
    BeginArrival,
    GetArrivalDigest,
    LeaveStore,
    ListArrivals,
    ReadUserRows,
    StageUserRows,
)
from actors.layers.users import HoldUser, ReleaseUser, UserHeld
from actors.refs import SessionRef

RENEWED_S = 15.0
"""How often the user's hold is renewed while data are moved."""

PAUSE_S = 0.05
"""How long to wait for turns of the user, or for others that hold the user, before the Session actor is asked again."""

MOST_MOVES = 16
"""Moves of the same user by other programs that are waited for."""


class MovedUser(msgspec.Struct, frozen=True, kw_only=True):
    """A move of a user.

    Attributes:
        before, now: the numbers of the stores, from 0. They are the same if the user was there already.
        rows: how many rows of the session store were moved.
        has_data: False: no store has anything of the user, who is new, or whose id is another one. Turns of the user begin in
            the store with the number `now` all the same.
    """

    before: int
    now: int
    rows: int = 0
    has_data: bool = True


async def move_user(session: SessionRef, app: str, user: str, to: int, timeout_s: float) -> MovedUser:
    """Move a user to the store with a number. Of programs that move one user at once each waits for the one before.

    Args:
        timeout_s: how long to wait for turns of the user that run or wait, in seconds.

    Raises:
        RequestError: the deployment has one store, or several Session actors for each; or the user's turns do not end in time.
        StoreError: a store failed.
    """
    stores = session.stores
    if len(stores) == 1:
        raise RequestError("the deployment has one store: start it with a list of stores to move users between them")
    if any(len(store.shards) > 1 for store in stores):
        raise RequestError("users are moved while each store has one Session actor: start the app with session_shards=1 for that")
    give_up_s = asyncio.get_running_loop().time() + timeout_s
    for _ in range(MOST_MOVES):
        # Whichever store answers has the user, and the client knows it then.
        await list_turns(session, ListTurns(app=app, user=user, limit=1))
        source = session.store_of(app, user)
        if source == to:
            found = await stores[source].ask(ReadUserRows(app=app, user=user))
            return MovedUser(before=source, now=to, has_data=bool(found.next))
        move = _Move(stores[source], stores[to], app, user, secrets.token_hex(8))
        # Else another program has moved the user meanwhile.
        with suppress(UserElsewhereError, UserArrivingError):
            async with move.held(give_up_s, timeout_s):
                rows, has_data = await move.made(source, to)
                session.note_store(app, user, to)
            return MovedUser(before=source, now=to, rows=rows, has_data=has_data)
    raise RequestError(f"user {user!r} was not moved: other programs move the user again and again")


class _Move:
    """One move.

    Args:
        source: the store of now.
        target: the other one.
    """

    def __init__(self, source: SessionRef, target: SessionRef, app: str, user: str, token: str) -> None:
        self._source = source
        self._target = target
        self._app = app
        self._user = user
        self._token = token
        self._hold = HoldUser(app=app, user=user, moves=True, token=token)

    async def made(self, source: int, to: int) -> tuple[int, bool]:
        """Make the move of a user who is held. Returns how many rows were moved, and whether there is anything of the user."""
        app, user, token = self._app, self._user, self._token
        await self._begin(source)
        number, rows, part = 0, 0, await self._source.ask(ReadUserRows(app=app, user=user))
        while part.next:
            number += 1
            rows += part.rows
            await self._target.ask(StageUserRows(app=app, user=user, token=token, number=number, raw=part.raw))
            part = await self._source.ask(ReadUserRows(app=app, user=user, after=part.next))
        digest = (await self._target.ask(GetArrivalDigest(app=app, user=user, token=token))).digest
        await self._source.ask(LeaveStore(app=app, user=user, to=to, rows=rows, token=token, digest=digest))
        await self._target.ask(AdmitUser(app=app, user=user, token=token))
        return rows, number > 0

    async def _begin(self, source: int) -> None:
        kept = (await self._target.ask(ListArrivals(app=self._app))).users
        replaces = next((each.token for each in kept if each.user == self._user), "")
        if replaces:
            # A move that is under way has its user held. This one has had the user held all the time, so that one has ended.
            await self._check_held()
        begin = BeginArrival(app=self._app, user=self._user, token=self._token, source=source, replaces=replaces)
        await self._target.ask(begin)

    async def _check_held(self) -> None:
        if not (await self._source.ask(msgspec.structs.replace(self._hold, renews=True))).is_held:
            raise StoreError(f"user {self._user!r} is not held by this move any more: nothing is moved, move the user again")

    @asynccontextmanager
    async def held(self, give_up_s: float, timeout_s: float) -> AsyncIterator[None]:
        """Within the block nothing of the user is under way in the store of now.

        Args:
            give_up_s: by the event loop's clock.
            timeout_s: for the error.

        Raises:
            RequestError: that does not come true in time.
            UserElsewhereError, UserArrivingError: the user is not there.
        """
        try:
            while not (held := await self._source.ask(self._hold)).is_idle:
                if asyncio.get_running_loop().time() > give_up_s:
                    why = _reason(held)
                    raise RequestError(f"user {self._user!r} was not moved within {timeout_s:g} s: {why}. Move the user again")
                await asyncio.sleep(PAUSE_S)
            # A Session actor that was lost has let go of the user, and LeaveStore is refused.
            renewing = asyncio.create_task(self._renew())
            try:
                yield
            finally:
                renewing.cancel()
        finally:
            await self._source.ask(ReleaseUser(app=self._app, user=self._user, token=self._token))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWED_S)
            await self._source.ask(msgspec.structs.replace(self._hold, renews=True))


def _reason(held: UserHeld) -> str:
    if not held.is_held:
        return "another program moves or deletes the user, or was lost while it did so less than a minute ago"
    named = ", ".join(repr(invocation_id) for _, invocation_id in held.turns)
    return f"turn {named} runs" if named else "turns of the user wait, or are written"
