"""What a Session actor does when a user is moved to its store, or from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.actor import Handlers
from actors.errors import StoreError
from actors.layers.batches import KeptBatches
from actors.layers.holds import UserHolds
from actors.layers.memory import Memory
from actors.layers.placing.messages import (
    AdmitUser,
    ArrivalDigest,
    Arrivals,
    BeginArrival,
    DropArrival,
    GetArrivalDigest,
    GetPlacement,
    LeaveStore,
    ListArrivals,
    PlacementReply,
    ReadUserRows,
    StageUserRows,
    UserRows,
)
from actors.layers.placing.placements import UserPlacements
from actors.layers.placing.rules import digest_with
from actors.layers.schedules.service import Schedules
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import Arrival, UserPlace
from actors.messages import protocol as p
from actors.messages.codec import decode, encode
from actors.messages.session import MemoryEntry, SessionKey
from actors.session.service import SessionParts, SessionService

MEMORY = "memory"
"""In place of the name of a table, for the entries of a session in memory."""

_OF_MEMORY = b"memory/"
_OF_ROWS = b"rows/"
"""How places begin: those in memory come before those in the session store, whose last look comes with the decision to leave."""


class UserMoves(SessionService):
    """Answers what programs ask that move users: see `actors.layers.placing.messages`."""

    def __init__(
        self,
        parts: SessionParts,
        memory: Memory,
        placements: UserPlacements,
        batches: KeptBatches,
        schedules: Schedules,
        user_holds: UserHolds,
    ) -> None:
        self._parts = parts
        self._user_holds = user_holds
        self._access = parts.access
        self._store = store_of(parts.access)
        self._memory = memory
        self._placements = placements
        self._batches = batches
        self._due_times = schedules.due
        # A program that moves a user asks to admit them, and so do all requests that find the user arriving: it is done once.
        self._settling = asyncio.Lock()
        # A request to leave that is sent again comes after the first one.
        self._leaving = asyncio.Lock()

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            ReadUserRows: self.read_user_rows,
            BeginArrival: self.begin_arrival,
            StageUserRows: self.stage_user_rows,
            LeaveStore: self.leave_store,
            GetArrivalDigest: self.get_arrival_digest,
            AdmitUser: self.admit_user,
            DropArrival: self.drop_arrival,
            ListArrivals: self.list_arrivals,
            GetPlacement: self.get_placement,
        }

    async def _write(self, step: Callable[..., None], app: str, *args: object) -> None:
        """Have the store do a step, which may change where a user is. Raises StoreError."""
        try:
            await self._access.write(step, app, *args)
        except BaseException:
            # It may have been done, or be done yet: the store is asked before anything else is.
            self._placements.forget(app)
            raise

    async def read_user_rows(self, message: ReadUserRows) -> UserRows:
        """Read a part of all that there is of a user: memory first, then rows of the session store. Raises StoreError."""
        app, user, after = message.app, message.user, message.after
        if not after.startswith(_OF_ROWS):
            if not after:
                await self._access.commits.flush()
            raw, session = await self._memory_part(app, user, after.removeprefix(_OF_MEMORY).decode())
            if raw:
                return UserRows(raw=raw, next=_OF_MEMORY + session.encode())
            after = _OF_ROWS
        raw, rows, place = await self._access.read(self._store.user_rows, app, user, after.removeprefix(_OF_ROWS))
        return UserRows(raw=raw, rows=rows, next=_OF_ROWS + place) if rows else UserRows()

    async def _memory_part(self, app: str, user: str, after: str) -> tuple[bytes, str]:
        """The part of the next session of which memory has entries, and the session; empty after the last one."""
        found = await self._memory.remembered(app, user, after, 1)
        if not found:
            return b"", ""
        [(session, entries)] = found
        return encode([(MEMORY, {"session": session, "entries": [encode(entry) for entry in entries]})]), session

    async def begin_arrival(self, message: BeginArrival) -> p.Ack:
        """Keep parts of a user from now on. Raises StoreError."""
        arrival = Arrival(message.user, message.token, message.source)
        await self._write(self._store.begin_arrival, message.app, arrival, message.replaces)
        self._placements.note_arriving(message.app, arrival)
        return p.Ack()

    async def stage_user_rows(self, message: StageUserRows) -> p.Ack:
        """Keep a part. Raises StoreError."""
        part = (message.app, message.user, message.token, message.number, message.raw)
        await self._access.write(self._store.stage, *part)
        return p.Ack()

    async def get_arrival_digest(self, message: GetArrivalDigest) -> ArrivalDigest:
        """Tell what is kept for a move. Raises StoreConflictError where it is for another one, StoreError."""
        return ArrivalDigest(digest=await self._access.read(self._store.arrival_digest, message.app, message.user, message.token))

    async def leave_store(self, message: LeaveStore) -> p.Ack:
        """Remove all of a user whom the move holds. Raises StoreError; the store says where the user is then."""
        app, user, holds = message.app, message.user, self._user_holds
        placement = UserPlace(message.to, message.token)
        async with self._leaving:
            if holds.is_held_by(app, user, message.token):
                with holds.kept(app, user, message.token):
                    await self._leave(app, user, placement, message.digest)
            elif await self._access.read(self._store.placement, app, user) != placement:
                raise StoreError(f"user {user!r} is not held by this move any more: nothing is moved, move the user again")
            # Else it was done, and the reply was lost.
            await self._memory.forget_user(app, user)
        return p.Ack()

    async def _leave(self, app: str, user: str, placement: UserPlace, digest: bytes) -> None:
        before, session = b"", ""
        while (part := await self._memory_part(app, user, session))[0]:
            before, session = digest_with(before, part[0]), part[1]
        await self._write(self._store.leave, app, user, placement, digest, before)
        self._placements.note_left(app, user, placement.store)

    async def admit_user(self, message: AdmitUser) -> p.Ack:
        """Write all that is kept of a user, who has left the other store. Raises StoreError."""
        app, user = message.app, message.user
        async with self._settling:
            if user in {each.user for each in await self._access.read(self._store.arrivals, app)}:
                # What is left of an earlier stay here.
                await self._memory.forget_user(app, user)
                for name, row in await self._access.read(self._store.staged, app, user, message.token):
                    if name == MEMORY:
                        entries = [decode(raw, MemoryEntry) for raw in row["entries"]]
                        await self._memory.take_over(SessionKey(app, user, row["session"]), entries)
                await self._write(self._store.admit, app, user, message.token)
                self._parts.forget_user(app, user)
            # The user may have gone on to another store since.
            self._placements.note_arrived(app, user, await self._access.read(self._store.placement, app, user))
        for schedule in await self._access.read(self._store.schedules, app, user):
            self._due_times.note_due(schedule.due_s)
        return p.Ack()

    async def drop_arrival(self, message: DropArrival) -> p.Ack:
        """Forget what is kept of a user who is in another store. Raises StoreError."""
        if message.with_batches:
            writes = self._batches.forgetting_user(message.app, message.user)
            await self._access.commits.submit(SessionKey(message.app, message.user, ""), writes)
        app, user = message.app, message.user
        async with self._settling:
            await self._write(self._store.drop_arrival, app, user, message.token)
            if user not in {each.user for each in await self._access.read(self._store.arrivals, app)}:
                self._placements.note_arrived(app, user, await self._access.read(self._store.placement, app, user))
        return p.Ack()

    async def list_arrivals(self, message: ListArrivals) -> Arrivals:
        """List the users of whom parts are kept. Raises StoreError."""
        return Arrivals(users=await self._access.read(self._store.arrivals, message.app))

    async def get_placement(self, message: GetPlacement) -> PlacementReply:
        """Tell where the store says that a user is. Raises StoreError."""
        found = await self._access.read(self._store.placement, message.app, message.user)
        return PlacementReply(store=found.store, token=found.token) if found is not None else PlacementReply()
