"""The users that are in another store than this Session actor's: requests about them are sent back to their senders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from actors.actor import Handler, Handlers
from actors.errors import RequestError, UserArrivingError, UserElsewhereError
from actors.layers.holds import UserHolds
from actors.layers.memory import Memory
from actors.layers.placing.messages import GetStoreSeat, ListStoreUsers, PlaceUsers, StoreSeatReply, StoreUsers, TakeStoreSeat
from actors.layers.placing.rules import user_digest
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import Arrival, FoundStore, UserPlace
from actors.messages import protocol as p
from actors.messages.protocol.base import ABOUT_USERS, Lane, Request, user_of
from actors.messages.session import SessionKey
from actors.session.service import SessionParts, SessionService


class UserPlacements(SessionService):
    """Answers GetStoreSeat, TakeStoreSeat, ListStoreUsers and PlaceUsers, and knows which users are elsewhere.

    The notes of users that are elsewhere are in memory, some hundred bytes each: a request costs one look at them.

    Args:
        memory: what the store's users have in memory.

    Attributes:
        is_one_of_several: there are other stores.
    """

    def __init__(self, parts: SessionParts, memory: Memory, holds: UserHolds) -> None:
        self._access = parts.access
        self._store = store_of(parts.access)
        self._memory = memory
        self._holds = holds
        holds.on_passed = self.check_key
        place = parts.environment.place
        self._number = place.number
        self.is_one_of_several = place.of > 1
        self._elsewhere: dict[str, dict[bytes, int]] = {}
        self._arriving: dict[tuple[str, str], Arrival] = {}
        self._loading = asyncio.Lock()

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            GetStoreSeat: self.get_store_seat,
            TakeStoreSeat: self.take_store_seat,
            ListStoreUsers: self.list_store_users,
            PlaceUsers: self.place_users,
        }

    def around(self, kind: type[Request[p.Message]], handler: Handler) -> Handler:
        """Let no message read or change what a user has who is elsewhere: it raises UserElsewhereError."""
        if not self.is_one_of_several or kind.route not in ABOUT_USERS:
            # Without other stores no user is moved, and nothing else has these wait.
            return handler
        if kind.lane is Lane.GO_ON:
            return self._checked(self._holds.entering(handler, goes_on=True))
        return self._checked(handler, again=kind.lane in (Lane.QUERY, Lane.READ))

    def _checked(self, handler: Handler, *, again: bool = False) -> Handler:
        """With `again` it is checked afterwards, too: the user may have been moved while a question was answered."""

        async def handle(message: Request[p.Message]) -> p.Message:
            owner = user_of(message)
            if owner is None:
                return await handler(message)
            key = SessionKey(*owner, "")
            await self.check_key(key)
            if isinstance(message, p.OpenTurn | p.Subscribe):
                self.check_sender(message, key.user)
            reply = await handler(message)
            if again:
                await self.check_key(key)
            return reply

        return handle

    def check_sender(self, message: p.OpenTurn | p.Subscribe, user: str) -> None:
        """Check that the driver polls this actor, and wants nothing that goes with one store only.

        Raises:
            UserElsewhereError: it polls another one.
            RequestError: its turn has a budget of the app.
        """
        if message.subscriber and message.store not in (None, self._number):
            # The driver has asked with what it knew before, and polls another Session actor.
            raise UserElsewhereError(user, self._number)
        if isinstance(message, p.OpenTurn) and message.config.app_daily_budget is not None:
            raise RequestError(
                "app_daily_budget goes with one session store, and the deployment has several: each knows only what its own "
                "users have used"
            )

    async def check_key(self, key: SessionKey) -> None:
        """Raise UserElsewhereError if the user of a session is in another store; UserArrivingError, StoreError."""
        if not self.is_one_of_several:
            return
        app, user = key.app, key.user
        elsewhere = self._elsewhere.get(app)
        if elsewhere is None:
            elsewhere = await self._loaded(app)
        if self._arriving and (arrival := self._arriving.get((app, user))) is not None:
            raise UserArrivingError(user, arrival.source, self._number)
        if elsewhere and (store := elsewhere.get(user_digest(app, user))) is not None:
            raise UserElsewhereError(user, store)

    async def _loaded(self, app: str) -> dict[bytes, int]:
        async with self._loading:
            while (loaded := self._elsewhere.get(app)) is None:
                # In one call of the store, behind which nothing is awaited: what is changed later is noted later.
                self._elsewhere[app], arrivals = await self._access.read(self._read_notes, app)
                self._arriving.update({(app, each.user): each for each in arrivals})
            return loaded

    def _read_notes(self, app: str) -> tuple[dict[bytes, int], Sequence[Arrival]]:
        """In the store's thread: the notes of users elsewhere, and the users of whom parts are kept."""
        return dict(self._store.placements(app)), self._store.arrivals(app)

    def note_left(self, app: str, user: str, store: int) -> None:
        """Note in memory that a user is in another store, as it stands in this one."""
        if app in self._elsewhere:
            self._elsewhere[app][user_digest(app, user)] = store

    def note_arriving(self, app: str, arrival: Arrival) -> None:
        """Note in memory that parts of a user are kept."""
        self._arriving[app, arrival.user] = arrival

    def note_arrived(self, app: str, user: str, placement: UserPlace | None) -> None:
        """Note in memory that none are kept any more, and where the user is; None: in this store."""
        self._arriving.pop((app, user), None)
        if placement is not None:
            self.note_left(app, user, placement.store)
        else:
            self._elsewhere.get(app, {}).pop(user_digest(app, user), None)

    def forget(self, app: str) -> None:
        """Have the store say where the users of an app are: what is in memory may be wrong."""
        self._elsewhere.pop(app, None)
        self._arriving = {key: arrival for key, arrival in self._arriving.items() if key[0] != app}

    async def get_store_seat(self, message: GetStoreSeat) -> StoreSeatReply:
        """Tell what the store has of an app. Raises StoreError."""
        app = message.app
        seat = await self._access.read(self._store.seat, app)
        if seat is not None or not self.is_one_of_several:
            return StoreSeatReply(store=FoundStore(str(self._store), seat=seat))
        of_app, _ = await self._access.read(self._store.state, app, "")
        is_empty = not (of_app or await self._users(app, "", 1))
        return StoreSeatReply(store=FoundStore(str(self._store), is_empty=is_empty, has_app_state=bool(of_app)))

    async def take_store_seat(self, message: TakeStoreSeat) -> p.Ack:
        """Have the store keep its place. Raises StoreError."""
        await self._access.write(self._store.take_seat, message.app, message.seat)
        return p.Ack()

    async def list_store_users(self, message: ListStoreUsers) -> StoreUsers:
        """List users of whom the store, or memory, has anything. Raises StoreError."""
        return StoreUsers(users=await self._users(message.app, message.after, message.limit))

    async def _users(self, app: str, after: str, limit: int) -> list[str]:
        stored = await self._access.read(self._store.users, app, after, limit)
        return sorted({*stored, *await self._memory.users(app, after, limit)})[:limit]

    async def place_users(self, message: PlaceUsers) -> p.Ack:
        """Note that users are in another store, from now on. Raises StoreError."""
        placements: Mapping[bytes, int] = dict.fromkeys(message.digests, message.store)
        await self._access.write(self._store.place_users, message.app, placements)
        if message.app in self._elsewhere:
            self._elsewhere[message.app].update(placements)
        return p.Ack()
