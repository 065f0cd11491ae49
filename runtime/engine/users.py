"""Deletes all data of a user of an app, or moves them to another store of the deployment, through its actors.

Rules of a move:

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
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress

import msgspec

from actors.errors import RequestError, StoreError, UserArrivingError, UserElsewhereError
from actors.layers.listing.client import list_turns
from actors.layers.listing.messages import ListTurns
from actors.layers.placing.messages import (
    AdmitUser,
    BeginArrival,
    DropArrival,
    GetArrivalDigest,
    LeaveStore,
    ListArrivals,
    ReadUserRows,
    StageUserRows,
)
from actors.layers.users import CancelWaitingTurns, HoldUser, ReleaseUser, RemoveUser, UserHeld
from actors.messages import protocol as p
from actors.refs import SessionRef
from runtime.engine.interface import Engine
from runtime.stores.safe_artifacts import SafeArtifactStore

RENEWED_S = 15.0
"""How often the user's hold is renewed while data are deleted or moved."""

PAUSE_S = 0.05
"""How long to wait for turns of the user, or for others that hold the user, before the Session actors are asked again."""


class DeletedUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was deleted of a user.

    Attributes:
        events: how many events their logs had, rewound ones included.
        state_keys: how many keys of `user:` state.
        memories: how many entries of memory.
        artifacts: how many artifacts, each with all its versions.
    """

    sessions: int
    events: int
    state_keys: int
    memories: int
    artifacts: int
    schedules: int = 0


async def delete_user(engine: Engine, artifacts: SafeArtifactStore, app: str, user: str) -> DeletedUser:
    """Cancel all turns of a user and delete all that the stores have. New requests of the user wait, then begin afresh.

    Raises:
        StoreError: a store failed, or cannot delete a user. Part of the data may be deleted: a repetition deletes the rest.
        ClusterError: an actor cannot be reached.
    """
    hold = HoldUser(app=app, user=user, token=secrets.token_hex(8))
    async with _held(engine.session, hold, _end_turns(engine, hold)):
        removed = await engine.session.ask(RemoveUser(app=app, user=user, token=hold.token))
        if len(engine.session.stores) > 1:
            # A move that was interrupted may have left something in another one, and the first one has items of maps.
            await asyncio.gather(*(_drop_arrival(engine, store.shards[0], hold) for store in engine.session.stores))
        files = await asyncio.to_thread(artifacts.delete_user, app, user, removed.sessions)
    return DeletedUser(
        sessions=len(removed.sessions),
        events=removed.events,
        state_keys=removed.state_keys,
        memories=removed.memories,
        artifacts=files,
        schedules=removed.schedules,
    )


async def _drop_arrival(engine: Engine, store: SessionRef, hold: HoldUser) -> None:
    """Have a store forget what it keeps for a move of the user that was interrupted."""
    kept = (await store.ask(ListArrivals(app=hold.app))).users
    token = next((each.token for each in kept if each.user == hold.user), "")
    if token and not (await engine.session.ask(msgspec.structs.replace(hold, renews=True))).is_held:
        # Another program may be at work on that move.
        raise StoreError(f"user {hold.user!r} is not held by this deletion any more: delete the user again")
    await store.ask(DropArrival(app=hold.app, user=hold.user, token=token, with_batches=True))


async def _end_turns(engine: Engine, hold: HoldUser) -> None:
    """Hold a user, and cancel all turns of the user."""
    await engine.session.ask(hold)
    await engine.runner.ask(CancelWaitingTurns(app=hold.app, user=hold.user))
    while not (held := await engine.session.ask(hold)).is_idle:
        cancelled = (p.CancelTurn(key=key, invocation_id=invocation_id) for key, invocation_id in held.turns)
        # A turn that cannot be cancelled now is named again.
        await asyncio.gather(*map(engine.runner.ask, cancelled), return_exceptions=True)
        await asyncio.sleep(PAUSE_S)


@asynccontextmanager
async def _held(session: SessionRef, renewal: HoldUser, idle: Awaitable[None]) -> AsyncIterator[None]:
    """Within the block nothing of a user is under way.

    Args:
        session: the Session actors that hold the user.
        renewal: renews the hold meanwhile.
        idle: holds the user, and waits until nothing is under way.
    """

    async def renew() -> None:
        while True:
            await asyncio.sleep(RENEWED_S)
            await session.ask(renewal)

    try:
        await idle
        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()
    finally:
        await session.ask(ReleaseUser(app=renewal.app, user=renewal.user, token=renewal.token))


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
            async with _held(stores[source], move.renewal, move.wait_until_idle(give_up_s, timeout_s)):
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
        # A Session actor that was lost has let go of the user, and LeaveStore is refused.
        self.renewal = msgspec.structs.replace(self._hold, renews=True)

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
        # A move that is under way has its user held. If this one has had the user held all the time, that one has ended.
        if replaces and not (await self._source.ask(self.renewal)).is_held:
            raise StoreError(f"user {self._user!r} is not held by this move any more: nothing is moved, move the user again")
        begin = BeginArrival(app=self._app, user=self._user, token=self._token, source=source, replaces=replaces)
        await self._target.ask(begin)

    async def wait_until_idle(self, give_up_s: float, timeout_s: float) -> None:
        """Hold the user, and wait until nothing of the user is under way in the store of now.

        Args:
            give_up_s: by the event loop's clock.
            timeout_s: for the error.

        Raises:
            RequestError: that does not come true in time.
            UserElsewhereError, UserArrivingError: the user is not there.
        """
        while not (held := await self._source.ask(self._hold)).is_idle:
            if asyncio.get_running_loop().time() > give_up_s:
                why = _reason(held)
                raise RequestError(f"user {self._user!r} was not moved within {timeout_s:g} s: {why}. Move the user again")
            await asyncio.sleep(PAUSE_S)


def _reason(held: UserHeld) -> str:
    if not held.is_held:
        return "another program moves or deletes the user, or was lost while it did so less than a minute ago"
    named = ", ".join(repr(invocation_id) for _, invocation_id in held.turns)
    return f"turn {named} runs" if named else "turns of the user wait, or are written"
