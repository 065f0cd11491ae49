"""Moves a user from one store of a deployment to another one, through the actors.

Rules of this file:

- The user is held: nothing of the user is under way, and what comes waits. A user with turns that run or wait is waited for.
- The other store keeps all that there is first. Then one step of the store of now removes it and notes where the user is, and
  the user is in the other store from that step on, whatever is lost afterwards: the first request, or the next start, has it
  write what it keeps.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from actors.errors import RequestError
from actors.messages import protocol as p
from actors.refs.session import SessionRef
from actors.rules.placing.homes import home_of, user_digest

RENEWED_S = 15.0
"""How often the user's hold is renewed while data are moved."""

PAUSE_S = 0.05
"""How long to wait for turns of the user before the Session actor is asked again."""


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
    """Move a user to the store with a number.

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
    # Whichever store answers has the user, and the client knows it then.
    await session.list_turns(p.ListTurns(app=app, user=user, limit=1))
    source = session.store_of(app, user)
    if source == to:
        found = await stores[source].read_user_rows(p.ReadUserRows(app=app, user=user))
        return MovedUser(before=source, now=to, has_data=bool(found.next))
    async with _held(stores[source], app, user, timeout_s):
        token = secrets.token_hex(8)
        await stores[to].move_step(p.BeginArrival(app=app, user=user, token=token, source=source))
        number, rows, part = 0, 0, await stores[source].read_user_rows(p.ReadUserRows(app=app, user=user))
        while part.next:
            number += 1
            rows += part.rows
            await stores[to].move_step(p.StageUserRows(app=app, user=user, token=token, number=number, raw=part.raw))
            part = await stores[source].read_user_rows(p.ReadUserRows(app=app, user=user, after=part.next))
        await stores[source].move_step(p.LeaveStore(app=app, user=user, to=to, rows=rows))
        await stores[to].move_step(p.AdmitUser(app=app, user=user, token=token))
        home = home_of(app, user, len(stores))
        if home not in (source, to):
            # Without it requests find the user as well, by way of the store before.
            await stores[home].place_users(p.PlaceUsers(app=app, digests=[user_digest(app, user)], store=to))
        session.note_store(app, user, to)
    return MovedUser(before=source, now=to, rows=rows, has_data=number > 0)


@asynccontextmanager
async def _held(store: SessionRef, app: str, user: str, timeout_s: float) -> AsyncIterator[None]:
    """Within the block nothing of the user is under way in a store. Raises RequestError if that does not come true in time."""
    hold = p.HoldUser(app=app, user=user, moves=True)
    give_up_s = time.monotonic() + timeout_s
    try:
        while not (held := await store.hold_user(hold)).is_idle:
            if time.monotonic() > give_up_s:
                named = ", ".join(repr(invocation_id) for _, invocation_id in held.turns)
                why = f"turn {named} runs" if named else "turns of the user wait, or are written"
                raise RequestError(f"user {user!r} was not moved within {timeout_s:g} s: {why}. Move the user again afterwards")
            await asyncio.sleep(PAUSE_S)
        # A Session actor that was lost has let go of the user, and LeaveStore is refused.
        renewing = asyncio.create_task(_renew(store, msgspec.structs.replace(hold, renews=True)))
        try:
            yield
        finally:
            renewing.cancel()
    finally:
        await store.release_user(p.ReleaseUser(app=app, user=user))


async def _renew(store: SessionRef, hold: p.HoldUser) -> None:
    while True:
        await asyncio.sleep(RENEWED_S)
        await store.hold_user(hold)
