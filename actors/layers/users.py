"""Deleting all data of a user, while others talk and while the user does.

1. `hold_user` lets new requests of the user wait, cancels turns in queues and names the turns that are open. It is asked again
   until nothing is left, and then has no log of the user in memory. The hold ends by itself when the driver is lost.
2. `remove_user`, in one of the Session actors, removes all sessions and the user's state in one transaction, then the memory.
3. `release_user` lets the requests that have waited go on. They find nothing of the user and begin afresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from actors.actor import Handlers
from actors.errors import StoreError, TurnCancelledError
from actors.interfaces.stores import PutState, RemoveSession, SessionRow, TurnFilter, Write
from actors.layers.batches import KeptBatches
from actors.layers.holds import UserHolds
from actors.layers.memory import Memory
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import ForgetRemoval, RemoveSchedule
from actors.messages import protocol as p
from actors.messages.json_types import JsonObject
from actors.messages.protocol.base import Ack, Lane, Message, Request, Route
from actors.messages.protocol.turns import MESSAGE
from actors.messages.session import SessionKey
from actors.rules.sharding import holds
from actors.runner.service import RunnerParts, RunnerService
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts, SessionService


class UserHeld(Message, frozen=True, kw_only=True):
    """Reply to HoldUser.

    Attributes:
        turns: the user's turns that are open, as session and invocation id: the driver has to cancel them.
        is_idle: nothing of the user is under way in this Session actor any more.
        is_held: False: the user is not held for the sender. Another one moves or deletes the user, or the hold has ended.
    """

    turns: Sequence[tuple[SessionKey, str]] = ()
    is_idle: bool = False
    is_held: bool = True

    @classmethod
    def joined(cls, replies: Sequence[Self]) -> Self:
        """The turns of all of them. The user is held where all hold."""
        return cls(
            turns=[turn for reply in replies for turn in reply.turns],
            is_idle=all(reply.is_idle for reply in replies),
            is_held=all(reply.is_held for reply in replies),
        )


class HoldUser(Request[UserHeld], frozen=True, kw_only=True):
    """Let what would write data of a user wait, and cancel the turns of the user that wait in queues. Sent again, it holds on.

    Attributes:
        moves: the user is to be moved: nothing is cancelled, and a user who has turns that run or wait is not held.
        renews: hold on if the sender has the user held still, and else do nothing: something may have happened since.
        token: tells those apart that hold the user. A move holds its user alone.
    """

    route = Route.USER_ACTORS
    lane = Lane.DIRECT

    app: str
    user: str
    moves: bool = False
    renews: bool = False
    token: str = ""


class UserRemoved(Message, frozen=True, kw_only=True):
    """Reply to RemoveUser.

    Attributes:
        sessions: the ids of the sessions that were removed.
        events: how many events their logs had, rewound ones included.
        state_keys: how many keys of `user:` state were removed.
        memories: how many entries of memory were removed.
        schedules: how many schedules were removed.
    """

    sessions: Sequence[str] = ()
    events: int = 0
    state_keys: int = 0
    memories: int = 0
    schedules: int = 0


class RemoveUser(Request[UserRemoved], frozen=True, kw_only=True):
    """Remove all sessions of a user, the user's state and memory. Every Session actor holds the user for this token."""

    route = Route.USER
    lane = Lane.DIRECT

    app: str
    user: str
    token: str = ""


class ReleaseUser(Request[Ack], frozen=True, kw_only=True):
    """End the hold of a token. Once no other has the user held, what has waited goes on, with nothing of the user in memory."""

    route = Route.ALL
    lane = Lane.DIRECT

    app: str
    user: str
    token: str = ""


class CancelWaitingTurns(Request[Ack], frozen=True, kw_only=True):
    """Cancel the turns of a user that wait in a Runner to be opened: no Session actor knows of them yet."""

    route = Route.ALL

    app: str
    user: str


class UserDeletion(SessionService):
    """Answers HoldUser, RemoveUser and ReleaseUser."""

    def __init__(self, parts: SessionParts, memory: Memory, batches: KeptBatches, user_holds: UserHolds) -> None:
        self._parts = parts
        self._store = store_of(parts.access)
        self._user_holds = user_holds
        self._logs = parts.logs
        self._memory = memory
        self._batches = batches

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            HoldUser: self.hold_user,
            RemoveUser: self.remove_user,
            ReleaseUser: self.release_user,
        }

    async def hold_user(self, message: HoldUser) -> UserHeld:
        """Let new requests of a user wait, and tell what is still under way. Raises StoreError."""
        app, user, token, user_holds = message.app, message.user, message.token, self._user_holds
        if message.renews and not user_holds.is_held_by(app, user, token):
            return UserHeld(is_held=False)
        if message.moves and (turns := self._under_way(app, user)) is not None:
            return UserHeld(turns=turns)
        if not user_holds.hold_user(app, user, token, alone=message.moves):
            return UserHeld(is_held=False)
        for key, _ in await self._parts.reader.open_turns(app):
            # One that was open when the actor was lost is in the store only.
            if (key.app, key.user) == (app, user) and holds(self._parts.shard, key):
                await self._logs.find(key)
        await self._memory.flush()
        if message.moves and (turns := self._under_way(app, user)) is not None:
            # It goes on as if it had not been asked.
            user_holds.release(app, user, token)
            return UserHeld(turns=turns)
        logs = self._of_user(app, user)
        for log in logs:
            self._empty_queue(log)
        turns = [(log.key, log.open_id()) for log in logs if log.turn is not None]
        is_writing = user_holds.is_writing(app, user) or (message.moves and self._owes_ends(app, user))
        is_held = user_holds.is_held_by(app, user, token)
        is_idle = is_held and not is_writing and all(log.queue.is_idle() and not log.unwritten for log in logs)
        if is_idle:
            self._parts.forget_user(app, user)
        return UserHeld(turns=turns, is_idle=is_idle, is_held=is_held)

    def _under_way(self, app: str, user: str) -> list[tuple[SessionKey, str]] | None:
        """The turns of a user that are open, where any are, or wait; None: none does."""
        logs = [log for log in self._of_user(app, user) if log.turn is not None or not log.queue.is_idle()]
        return [(log.key, log.open_id()) for log in logs if log.turn is not None] if logs else None

    def _owes_ends(self, app: str, user: str) -> bool:
        """True while the store does not know that turns of a user have ended: moved so, they would run again."""
        return self._parts.access.pending_ends.owes(TurnFilter(app=app, user=user))

    async def remove_user(self, message: RemoveUser) -> UserRemoved:
        """Remove everything of a user that the stores have. Raises StoreError."""
        app, user = message.app, message.user
        access, of_user = self._parts.access, SessionKey(message.app, message.user, "")
        if not self._user_holds.hold_user(app, user, message.token):
            raise StoreError(f"user {user!r} is being moved: delete the user again")
        await access.commits.flush()
        rows, state, removed = await access.read(self._found, app, user)
        access.commits.clear_failure(of_user)
        schedules = await access.read(self._store.schedules, app, user)
        writes = [
            *(RemoveSession(row.key) for row in rows),
            *map(ForgetRemoval, removed),
            *_without(of_user, state),
            *(RemoveSchedule(each.key, each.name, each.id) for each in schedules),
            *self._batches.forgetting_user(app, user),
        ]
        await access.commits.submit(of_user, writes)
        self._parts.forget_user(app, user)
        memories = await self._memory.forget_user(app, user)
        await access.read(self._store.erase_traces)
        events, kept = sum(row.head_seq for row in rows), [row for row in schedules if not row.name.startswith(MESSAGE)]
        sessions = [row.key.session for row in rows]
        return UserRemoved(sessions=sessions, events=events, state_keys=len(state), memories=memories, schedules=len(kept))

    async def release_user(self, message: ReleaseUser) -> p.Ack:
        """End the hold of a token, and let what has waited go on, unless another one holds the user."""
        app, user, token = message.app, message.user, message.token
        if self._user_holds.is_held_by(app, user, token):
            self._parts.forget_user(app, user)
            self._user_holds.release(app, user, token)
        return p.Ack()

    def _of_user(self, app: str, user: str) -> list[SessionLog]:
        return [log for log in self._logs.all_in_memory() if (log.key.app, log.key.user) == (app, user)]

    def _empty_queue(self, log: SessionLog) -> None:
        for waiter in list(log.queue):
            log.queue.remove(waiter, TurnCancelledError(waiter.invocation_id))
            self._parts.subscriptions.publish_end(log.key, waiter.invocation_id, p.Cancelled())

    def _found(self, app: str, user: str) -> tuple[list[SessionRow], JsonObject, list[SessionKey]]:
        """In the store's thread: the user's sessions and state, and sessions that were pruned and have artifacts yet."""
        removed = [each.key for each in self._store.removals(app, user)]
        return self._store.sessions(app, user), self._store.state(app, user)[1], removed


def _without(of_user: SessionKey, state: JsonObject) -> list[Write]:
    return [PutState(of_user, {}, tuple(state))] if state else []


class WaitingTurns(RunnerService):
    """Answers CancelWaitingTurns."""

    def __init__(self, parts: RunnerParts) -> None:
        self._admission = parts.admission

    def handlers(self) -> Handlers:
        """Its message."""
        return {CancelWaitingTurns: self.cancel_waiting_turns}

    async def cancel_waiting_turns(self, message: CancelWaitingTurns) -> p.Ack:
        """Cancel the turns of a user that wait to be opened."""
        self._admission.cancel_user(message.user)
        return p.Ack()
