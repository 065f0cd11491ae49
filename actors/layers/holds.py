"""Users and sessions that are held while their data are deleted or moved: what would write any of it waits.

Rules of this file:

- A hold of a user belongs to those who have named their tokens. It ends when each of them has released it, or has not renewed it
  for long. So none of them ends the hold of another.
- A move holds its user alone: it gets no hold while another one is there, and none is given beside its own.
- What writes is counted. A hold is complete when nothing is counted that began before it.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from actors.actor import Handler
from actors.messages.protocol.base import Lane, Message, Request, key_of
from actors.messages.session import SessionKey
from actors.session.service import SessionParts, SessionService

HOLD_S = 60.0
"""A hold that is not renewed ends after this time: the driver that has asked for it was lost."""


class _Hold:
    """A hold.

    Attributes:
        until_s: until when, by the token of each who holds.
        is_alone: there is one holder, a move.
        released: set when the hold has ended.
    """

    def __init__(self, *, is_alone: bool = False) -> None:
        self.until_s: dict[str, float] = {}
        self.is_alone = is_alone
        self.released = asyncio.Event()


class UserHolds(SessionService):
    """The users that are held, the single sessions, and what is being written of users.

    Attributes:
        on_passed: called when the wait for a hold is over; what it raises is raised by what has waited.
    """

    def __init__(self, parts: SessionParts) -> None:
        self._clock = parts.environment.clock
        self._holds: dict[tuple[str, ...], _Hold] = {}
        self._writing: Counter[tuple[str, str]] = Counter()
        self.on_passed: Callable[[SessionKey], Awaitable[None]] = _nothing
        parts.logs.held = self.session_hold

    def around(self, kind: type[Request[Message]], handler: Handler) -> Handler:
        """The handler of a request that begins or changes something, which waits while its user or its session is held."""
        return self.entering(handler) if kind.lane in (Lane.BEGIN, Lane.CHANGE) else handler

    def hold_user(self, app: str, user: str, token: str = "", *, alone: bool = False) -> bool:
        """Hold a user from now on, or hold on. False: another one holds the user, and both cannot.

        Args:
            token: of the holder.
            alone: not beside others.
        """
        hold = self._live((app, user))
        if hold is not None and (hold.is_alone or alone) and token not in hold.until_s:
            return False
        self._hold((app, user), token, is_alone=alone)
        return True

    def hold_session(self, key: SessionKey) -> None:
        """Hold a session from now on, or hold on."""
        self._hold(_of_session(key), "")

    def is_held_by(self, app: str, user: str, token: str) -> bool:
        """True while a holder has a user held."""
        hold = self._live((app, user))
        return hold is not None and token in hold.until_s

    @contextmanager
    def kept(self, app: str, user: str, token: str) -> Iterator[None]:
        """Within the block the hold of a holder does not end, also when it is released."""
        keeper = f"{token}, kept"
        self._holds[app, user].until_s[keeper] = math.inf
        try:
            yield
        finally:
            self._release((app, user), keeper)

    def release(self, app: str, user: str, token: str = "") -> None:
        """Let go of a user, if this holder has the user held. Others hold on."""
        self._release((app, user), token)

    def release_session(self, key: SessionKey) -> None:
        """Let go of a session; one that is not held is no error. That of a user who is held stays held."""
        self._release(_of_session(key), "")

    def has(self, key: SessionKey) -> bool:
        """True when a session or its user is held."""
        return bool(self._holds) and self._of(key) is not None

    def has_user(self, app: str, user: str) -> bool:
        """True when a user is held."""
        return bool(self._holds) and self._live((app, user)) is not None

    async def passed(self, key: SessionKey) -> None:
        """Wait until neither a session nor its user is held. Raises UserElsewhereError if the user was moved, StoreError."""
        await self._passed(key, self._of)

    def session_hold(self, key: SessionKey) -> Awaitable[None] | None:
        """The wait of something that is counted already for a session that is held by itself; None: it is not held."""
        if not self._holds or self._live(_of_session(key)) is None:
            return None
        return self._passed(key, lambda key: self._live(_of_session(key)))

    def entering(self, handler: Handler, *, goes_on: bool = False) -> Handler:
        """The handler of a request that changes what a user has: it waits while the user is held.

        While a user is deleted nothing begins, and what is under way may end. While a user is moved nothing is written at all:
        the hold of a move begins when nothing is under way. Until the handler has ended no hold of its user is complete.

        Args:
            goes_on: it is part of what is under way.
        """

        async def handle(message: Request[Message]) -> Message:
            async with self.entered(key_of(message), goes_on=goes_on):
                return await handler(message)

        return handle

    @asynccontextmanager
    async def entered(self, key: SessionKey, *, goes_on: bool = False) -> AsyncIterator[None]:
        """Wait until something of a session may be written, and count it within the block. Raises what `passed` raises.

        Args:
            goes_on: with a turn that is there, for whose end deletions wait.
        """
        if self._holds:
            await self._passed(key, self._alone if goes_on else self._of)
        # From the last look at the holds to here nothing was awaited.
        with self.writing(key):
            yield

    @contextmanager
    def writing(self, *keys: SessionKey) -> Iterator[None]:
        """Within the block something of these is written, none of which is held now."""
        users = [(key.app, key.user) for key in keys]
        self._writing.update(users)
        try:
            yield
        finally:
            for user in users:
                self._writing[user] -= 1
                if not self._writing[user]:
                    del self._writing[user]

    def is_writing(self, app: str, user: str) -> bool:
        """True while something of a user is written."""
        return (app, user) in self._writing

    async def _passed(self, key: SessionKey, find: Callable[[SessionKey], _Hold | None]) -> None:
        while (hold := find(key)) is not None:
            left_s = max(hold.until_s.values()) - self._clock()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, HOLD_S)):
                    await hold.released.wait()
            await self.on_passed(key)

    def _hold(self, what: tuple[str, ...], token: str, *, is_alone: bool = False) -> None:
        hold = self._holds.setdefault(what, _Hold(is_alone=is_alone))
        hold.until_s[token] = self._clock() + HOLD_S

    def _release(self, what: tuple[str, ...], token: str) -> None:
        hold = self._holds.get(what)
        if hold is not None and hold.until_s.pop(token, None) is not None and not hold.until_s:
            del self._holds[what]
            hold.released.set()

    def _of(self, key: SessionKey) -> _Hold | None:
        """The hold of a session or of its user; None: neither is held."""
        return self._live((key.app, key.user)) or self._live(_of_session(key))

    def _alone(self, key: SessionKey) -> _Hold | None:
        """The hold of a move."""
        hold = self._live((key.app, key.user))
        return hold if hold is not None and hold.is_alone else None

    def _live(self, what: tuple[str, ...]) -> _Hold | None:
        hold = self._holds.get(what)
        if hold is None:
            return None
        now_s = self._clock()
        for token in [token for token, until_s in hold.until_s.items() if until_s <= now_s]:
            self._release(what, token)
        return self._holds.get(what)


def _of_session(key: SessionKey) -> tuple[str, str, str]:
    return key.app, key.user, key.session


async def _nothing(_: SessionKey) -> None:
    """Does nothing."""
