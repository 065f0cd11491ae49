"""What a Session actor does when a user is moved to its store, or from it."""

from __future__ import annotations

import asyncio

from actors.errors import StoreError
from actors.interfaces.store_abilities.placing import MovesUsers
from actors.interfaces.store_abilities.schedules import KeepsSchedules
from actors.messages import protocol as p
from actors.messages.codec import decode, encode
from actors.messages.memory import MemoryEntry
from actors.messages.operating.store_seat import Arrival
from actors.messages.session import SessionKey
from actors.session.batches.keeping import KeptBatches
from actors.session.memory import Memory
from actors.session.placing.placements import UserPlacements
from actors.session.turns.parts import SessionParts

MEMORY = "memory"
"""In place of the name of a table, for the entries of a session in memory."""

_OF_MEMORY = b"memory/"
"""How a place begins that is one in memory, after all rows of the session store."""


class UserMoves:
    """Answers ReadUserRows, BeginArrival, StageUserRows, LeaveStore, AdmitUser, DropArrival, ListArrivals and GetPlacement."""

    def __init__(self, parts: SessionParts, memory: Memory, placements: UserPlacements, batches: KeptBatches) -> None:
        self._parts = parts
        self._access = parts.access
        self._memory = memory
        self._placements = placements
        self._batches = batches
        # A program that moves a user asks to admit them, and so do all requests that find the user arriving: it is done once.
        self._settling = asyncio.Lock()

    def _store(self) -> MovesUsers:
        store = self._access.store
        if not isinstance(store, MovesUsers):
            raise StoreError(f"{type(store).__name__} cannot move users: it has no methods of MovesUsers")
        return store

    async def read_user_rows(self, message: p.ReadUserRows) -> p.UserRows:
        """Read a part of all that there is of a user: rows of the session store first, then memory. Raises StoreError."""
        app, user, after = message.app, message.user, message.after
        if not after.startswith(_OF_MEMORY):
            if not after:
                await self._access.commits.flush()
            raw, rows, place = await self._access.read(self._store().user_rows, app, user, after)
            if rows:
                return p.UserRows(raw=raw, rows=rows, next=place)
            after = _OF_MEMORY
        found = await self._memory.remembered(app, user, after.removeprefix(_OF_MEMORY).decode(), 1)
        if not found:
            return p.UserRows()
        [(session, entries)] = found
        raw = encode([(MEMORY, {"session": session, "entries": [encode(entry) for entry in entries]})])
        return p.UserRows(raw=raw, next=_OF_MEMORY + session.encode())

    async def begin_arrival(self, message: p.BeginArrival) -> p.Ack:
        """Keep parts of a user from now on. Raises StoreError."""
        arrival = Arrival(message.user, message.token, message.source)
        await self._access.write(self._store().begin_arrival, message.app, arrival)
        self._placements.note_arriving(message.app, arrival)
        return p.Ack()

    async def stage_user_rows(self, message: p.StageUserRows) -> p.Ack:
        """Keep a part. Raises StoreError."""
        part = (message.app, message.user, message.token, message.number, message.raw)
        await self._access.write(self._store().stage, *part)
        return p.Ack()

    async def leave_store(self, message: p.LeaveStore) -> p.Ack:
        """Remove all of a user who is held. Raises StoreError; the user is still here then."""
        app, user = message.app, message.user
        if not self._parts.user_holds.has(SessionKey(app, user, "")):
            if await self._access.read(self._store().placement, app, user) == message.to:
                # It was done by an actor that was lost with the reply.
                return p.Ack()
            raise StoreError(f"user {user!r} is not held any more: nothing is moved, move the user again")
        self._parts.user_holds.hold_user(app, user)
        await self._access.write(self._store().leave, app, user, message.to, message.rows)
        self._placements.note_left(app, user, message.to)
        await self._memory.forget_user(app, user)
        return p.Ack()

    async def admit_user(self, message: p.AdmitUser) -> p.Ack:
        """Write all that is kept of a user, who has left the other store. Raises StoreError."""
        app, user = message.app, message.user
        store = self._store()
        async with self._settling:
            if user in {each.user for each in await self._access.read(store.arrivals, app)}:
                for name, row in await self._access.read(store.staged, app, user, message.token):
                    if name == MEMORY:
                        entries = [decode(raw, MemoryEntry) for raw in row["entries"]]
                        await self._memory.take_over(SessionKey(app, user, row["session"]), entries)
                await self._access.write(store.admit, app, user, message.token)
        self._parts.shared.mark_stale(SessionKey(app, user, ""))
        self._parts.admission.forget_state(SessionKey(app, user, ""))
        self._placements.note_arrived(app, user, is_here=True)
        if isinstance(store, KeepsSchedules):
            for schedule in await self._access.read(store.schedules, app, user):
                self._parts.due_times.note_due(schedule.due_s)
        return p.Ack()

    async def drop_arrival(self, message: p.DropArrival) -> p.Ack:
        """Forget what is kept of a user who is in another store. Raises StoreError."""
        if message.with_batches and (writes := self._batches.forgetting_user(message.app, message.user)):
            await self._access.commits.submit(SessionKey(message.app, message.user, ""), writes)
        async with self._settling:
            await self._access.write(self._store().drop_arrival, message.app, message.user)
        self._placements.note_arrived(message.app, message.user, is_here=False)
        return p.Ack()

    async def list_arrivals(self, message: p.ListArrivals) -> p.Arrivals:
        """List the users of whom parts are kept. Raises StoreError."""
        store = self._access.store
        return p.Arrivals(users=await self._access.read(store.arrivals, message.app) if isinstance(store, MovesUsers) else ())

    async def get_placement(self, message: p.GetPlacement) -> p.PlacementReply:
        """Tell where the store says that a user is. Raises StoreError."""
        return p.PlacementReply(store=await self._access.read(self._store().placement, message.app, message.user))
