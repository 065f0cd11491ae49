"""Deletes all data of a user of an app, through the actors of its deployment."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from actors.errors import StoreError
from actors.layers.placing.messages import DropArrival, ListArrivals
from actors.layers.users import CancelWaitingTurns, HoldUser, ReleaseUser, RemoveUser
from actors.messages import protocol as p
from actors.refs import SessionRef
from runtime.engine.interface import Engine
from runtime.stores.safe_artifacts import SafeArtifactStore

RENEWED_S = 15.0
"""How often the user's hold is renewed while data is being deleted."""

PAUSE_S = 0.05
"""How long to wait for turns that are about to begin or to end, before the Session actors are asked again."""


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
    async with _held(engine, hold):
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


@asynccontextmanager
async def _held(engine: Engine, hold: HoldUser) -> AsyncIterator[None]:
    """Within the block nothing of the user is under way in any actor."""
    app, user = hold.app, hold.user
    try:
        await engine.session.ask(hold)
        await engine.runner.ask(CancelWaitingTurns(app=app, user=user))
        while not (held := await engine.session.ask(hold)).is_idle:
            cancelled = (p.CancelTurn(key=key, invocation_id=invocation_id) for key, invocation_id in held.turns)
            # A turn that cannot be cancelled now is named again.
            await asyncio.gather(*map(engine.runner.ask, cancelled), return_exceptions=True)
            await asyncio.sleep(PAUSE_S)
        renewing = asyncio.create_task(_renew(engine, hold))
        try:
            yield
        finally:
            renewing.cancel()
    finally:
        await engine.session.ask(ReleaseUser(app=app, user=user, token=hold.token))


async def _renew(engine: Engine, hold: HoldUser) -> None:
    while True:
        await asyncio.sleep(RENEWED_S)
        await engine.session.ask(hold)
