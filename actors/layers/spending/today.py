"""What turns that began today have used: those of the app, and those of each user of whom a turn has a daily budget."""

from __future__ import annotations

from collections.abc import Callable

from actors.layers.spending.day_sums import DaySums
from actors.messages.session import SessionKey
from actors.session.log.open_turn import SessionTurn

MAX_USERS = 1_000
"""Users whose sums are kept before those are forgotten that have no open turn."""


class SumsOfToday:
    """The sums of the day of the app, and by user, as far as they were asked for.

    Args:
        sums_of: makes those of a user, or of the app: None. They are read when they are asked for.

    Attributes:
        app: those of the app.
        on_wanted: called when sums are asked for. From then on `track` and `note` have to be called with what turns use.
    """

    def __init__(self, sums_of: Callable[[str | None], DaySums]) -> None:
        self.on_wanted: Callable[[], None] = lambda: None
        self.app = sums_of(None)
        self._sums_of = sums_of
        self._users: dict[tuple[str, str], DaySums] = {}
        self._most = MAX_USERS

    async def of_app(self, key: SessionKey) -> DaySums:
        """Those of the app of a session. Raises StoreError."""
        self.on_wanted()
        await self.app.refresh(key)
        return self.app

    async def of_user(self, key: SessionKey, turn: SessionTurn) -> DaySums:
        """Those of the user of a turn. What the turn uses from now on is added. Raises StoreError."""
        self.on_wanted()
        name = (key.app, key.user)
        while True:
            sums = self._users.get(name)
            if sums is None:
                self._forget_idle()
                sums = self._users[name] = self._sums_of(key.user)
            await sums.refresh(key)
            # They may have been forgotten meanwhile, if no turn of the user was open.
            if self._users.get(name) is sums:
                sums.track(key, turn)
                return sums

    def track(self, key: SessionKey, turn: SessionTurn) -> None:
        """Count what a turn is about to use: see DaySums."""
        if self.app.is_wanted:
            self.app.track(key, turn)
        if self._users and (sums := self._users.get((key.app, key.user))) is not None:
            sums.track(key, turn)

    def note(self, key: SessionKey, turn: SessionTurn) -> None:
        """Count what a turn has used since: see DaySums."""
        if self.app.is_wanted:
            self.app.note(key, turn)
        if self._users and (sums := self._users.get((key.app, key.user))) is not None:
            sums.note(key, turn)

    def _forget_idle(self) -> None:
        if len(self._users) >= self._most:
            self._users = {name: sums for name, sums in self._users.items() if not sums.is_idle}
            self._most = max(MAX_USERS, 2 * len(self._users))
