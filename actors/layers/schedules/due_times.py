"""What is due of the schedules of this actor's sessions, and the Runners that wait for it.

Rules of this file:

- The store knows what is due, by an index. What is kept here of it, a Runner that finds another actor reads again.
- A due time has been dealt with when its schedule has gone on in the store, in the step in which its turn begins. Until then it
  is due, and given to each request that begins before it; the Runner knows what it is about to start.
- A turn begins only if its schedule was found due, and has not been changed since. No schedule is looked at while it is changed.
- The first due time that is not reached yet is read with those that are. What is created or resumed meanwhile, and due earlier,
  is noted here. So no time is looked for in vain.
- Messages are due at once, and stand in no order of time among those of one second. So each is noted for the Runners as it is
  stored, also between two requests; what is due and may stand before the place of a Runner is read from the first one again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from actors.actor import KeyedLocks
from actors.errors import ScheduleNotFoundError, UserArrivingError, UserElsewhereError
from actors.interfaces.stores import Write
from actors.layers.holds import UserHolds
from actors.layers.schedules.messages import AwaitDue, DueReply, DueTurn
from actors.layers.schedules.rules import due_now
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import AddSchedule, AdvanceSchedule
from actors.layers.stores.schedule import DuePlace, ScheduleRow
from actors.messages import protocol as p
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey, Shard
from actors.rules.accounting import Tallies
from actors.rules.sharding import holds
from actors.session.store.access import StoreAccess
from actors.session.store.grouped_reads import GroupedReads

PAGE = 100
"""Schedules that are read, and given to a Runner, at a time."""

LONGEST_NAP_S = 60.0
"""The clock of the machine is looked at so often: it may be set, and goes on while a machine sleeps."""

HELD_S = 1.0
"""So long after it what is due of a user is looked at again who is deleted or moved."""

MIN_NAP_S = 0.001
"""The clocks of the machine and of the event loop differ a little."""


class DueTimes:
    """Knows what is due, and has a part in the opening of turns: see `DueHook`.

    Args:
        now_s: the time, in seconds since the epoch.
        tallies: get what became of each due time.
        user_holds: users whose schedules stay as they are.
        longest_nap_s: after so long the time is looked at again.
    """

    def __init__(
        self,
        access: StoreAccess,
        shard: Shard,
        now_s: Callable[[], float],
        tallies: Tallies,
        user_holds: UserHolds,
        longest_nap_s: float = LONGEST_NAP_S,
    ) -> None:
        self._longest_nap_s = longest_nap_s
        self._access = access
        self._store = store_of(access)
        self._shard = shard
        self.now_s = now_s
        self._tallies = tallies
        self._holds = user_holds
        self._waits: dict[str, _Wait] = {}
        self._found = GroupedReads(self._find)
        self._changes: KeyedLocks[tuple[SessionKey, str]] = KeyedLocks()
        # Of schedules of which a turn is asked for: the due time that was found; None: none was, or it has changed since.
        self._beginning: dict[tuple[SessionKey, str], int | None] = {}
        self._is_closed = False

    async def refusal(self, message: p.OpenTurn, time: ScheduledTime) -> ScheduleNotFoundError | None:
        """The reason why a turn may not begin that is not there: its schedule was deleted, replaced or paused, or has gone on.

        Raises StoreError.
        """
        key = message.key
        async with self._changes.locked((key, time.id)):
            row = await self._found.of((key.app, key.user, time.name))
            if row is None or row.id != time.id or row.due_s is None or row.due_s > time.due_s:
                return _gone(key, time)
            self._beginning[key, time.id] = time.due_s
        return None

    async def _find(self, places: Sequence[tuple[str, str, str]]) -> Mapping[tuple[str, str, str], ScheduleRow | None]:
        """The schedules of some apps, users and names."""

        def read() -> dict[tuple[str, str, str], ScheduleRow | None]:
            found: dict[tuple[str, str, str], ScheduleRow | None] = dict.fromkeys(places)
            for app in dict.fromkeys(app for app, _, _ in places):
                of_users = [(user, name) for of_app, user, name in places if of_app == app]
                named = self._store.schedules_named(app, of_users)
                found.update(((app, user, name), row) for (user, name), row in named.items())
            return found

        return await self._access.read(read)

    def writes(self, key: SessionKey, due: ScheduledTime) -> Sequence[Write]:
        """The schedule goes on in the step in which its turn begins.

        Raises ScheduleNotFoundError when it was changed after it was found due.
        """
        if self._beginning.get((key, due.id)) != due.due_s:
            raise _gone(key, due)
        return [AdvanceSchedule(key, due)]

    def opened(self, due: ScheduledTime) -> None:
        """The turn of a schedule has begun, and this has gone on with it in the store."""
        self._note("", due, self.now_s() - due.due_s)
        self.note_due(due.next_s)

    def _note(self, error: str, time: ScheduledTime, late_s: float) -> None:
        if not time.is_message:
            self._tallies.note_schedule(error, late_s)

    def note_due(self, due_s: int | None) -> None:
        """A schedule is due then: whatever waits for a later one waits no longer than that."""
        if due_s is not None:
            is_due = due_s <= self.now_s()
            for wait in self._waits.values():
                wait.note_due(due_s, is_due=is_due)

    async def next_due(self, message: AwaitDue) -> DueReply:
        """Wait until something is due, and return it. Raises StoreError."""
        wait = self._waits.get(message.runner)
        if wait is None or not wait.is_between or wait.number != message.number:
            if wait is not None:
                wait.end()
            wait = self._waits[message.runner] = _Wait(message.shard, message.after, message.number)
            wait.is_behind = message.after is not None
        wait.is_between = False
        if self._is_closed:
            wait.end()
        try:
            while not wait.is_over:
                wait.until_s, wait.is_reading = math.inf, True
                reply = await self._read_due(message, wait)
                wait.is_reading = False
                if not reply.turns:
                    await wait.passed(self.now_s, self._longest_nap_s)
                if (reply.turns or wait.is_behind) and not wait.is_over:
                    after = None if wait.is_behind else reply.after
                    then = self._waits[message.runner] = _Wait(message.shard, after, wait.number + 1)
                    then.rows = wait.rows
                    return DueReply(turns=reply.turns, after=after, number=then.number)
        finally:
            if self._waits.get(message.runner) is wait:
                del self._waits[message.runner]
        return DueReply(after=message.after)

    def close(self) -> None:
        """End all waits."""
        self._is_closed = True
        for wait in self._waits.values():
            wait.end()

    async def _read_due(self, message: AwaitDue, wait: _Wait) -> DueReply:
        """Read what is due, and note for the wait what is due next."""
        noted, wait.rows = wait.rows, []
        after = message.after
        now_s = self.now_s()
        found = await self._due_turns([row for row in noted if after is not None and row.due_place <= after], now_s, wait)
        while len(found) < PAGE:
            rows, mine = await self._access.read(self._page, message.app, after), list[ScheduleRow]()
            for row in rows:
                if row.due_s is None or row.due_s > now_s:
                    wait.note_due(row.due_s or 0)
                    return DueReply(turns=[*found, *await self._due_turns(mine, now_s, wait)], after=after)
                after = row.due_place
                if holds(self._shard, row.key) and holds(message.shard, row.key):
                    mine.append(row)
            found += await self._due_turns(mine, now_s, wait)
            if len(rows) < PAGE:
                break
        return DueReply(turns=found, after=after)

    def _page(self, app: str, after: DuePlace | None) -> list[ScheduleRow]:
        return self._store.next_schedules(app, limit=PAGE, after=after)

    async def _due_turns(self, rows: Sequence[ScheduleRow], now_s: float, wait: _Wait) -> list[DueTurn]:
        """The turns that schedules make now. Those that pass over what they have missed make none."""
        found: list[DueTurn] = []
        passed = []
        for row in rows:
            plan = row.plan
            turn_s, next_s = due_now(plan.timing, plan.missed, row.due_s or 0, now_s)
            time = ScheduledTime(row.name, row.id, turn_s or int(now_s), next_s)
            if turn_s is None and self._holds.has(row.key):
                # Others do not wait for it.
                wait.note_due(now_s + HELD_S)
            elif turn_s is None and (row.key, row.id) in self._beginning:
                # It was not missed: its turn waits in line.
                continue
            elif turn_s is None:
                passed.append(self._pass_over(row.key, time))
            else:
                place = row.due_place
                due = DueTurn(key=row.key, place=place, time=time, content=plan.content, config=plan.config, message=plan.message)
                found.append(due)
        await asyncio.gather(*passed)
        return found

    async def _pass_over(self, key: SessionKey, time: ScheduledTime) -> None:
        with suppress(UserElsewhereError, UserArrivingError):
            async with self._holds.entered(key):
                await self.go_on(key, time, "the deployment was down at that time")

    async def go_on(self, key: SessionKey, time: ScheduledTime, error: str) -> None:
        """Have a schedule go on to its next due time. Raises StoreError."""
        async with self.changing(key, time.id):
            await self.write(key, [AdvanceSchedule(key, time, error)])
        self._note(error, time, 0.0)
        self.note_due(time.next_s)

    @contextmanager
    def opening(self, key: SessionKey, schedule_id: str) -> Iterator[None]:
        """A turn of a schedule is asked for: its due time is not passed over meanwhile."""
        self._beginning.setdefault((key, schedule_id), None)
        try:
            yield
        finally:
            self._beginning.pop((key, schedule_id), None)

    @asynccontextmanager
    async def changing(self, key: SessionKey, schedule_id: str) -> AsyncIterator[None]:
        """A schedule is changed, when its other changes are done. No turn of it begins that was about to."""
        async with self._changes.locked((key, schedule_id)):
            if (key, schedule_id) in self._beginning:
                self._beginning[key, schedule_id] = None
            yield

    async def write(self, key: SessionKey, writes: Sequence[Write]) -> None:
        """Write changes of schedules. Raises StoreError."""
        # No log has to be without holes for it.
        of_user = SessionKey(key.app, key.user, "")
        self._access.commits.clear_failure(of_user)
        added = [write.row for write in writes if isinstance(write, AddSchedule)]
        try:
            await self._access.commits.submit(of_user, writes)
        except BaseException:
            # A store that says that it has failed may have them all the same.
            for row in added:
                self.note_due(row.due_s)
            raise
        for row in added:
            self._note_added(row)

    def _note_added(self, row: ScheduleRow) -> None:
        if row.due_s is None or row.due_s > self.now_s():
            self.note_due(row.due_s)
            return
        for wait in self._waits.values():
            wait.note_row(row)


def _gone(key: SessionKey, time: ScheduledTime) -> ScheduleNotFoundError:
    return ScheduleNotFoundError(time.name, key.user, " It was deleted or paused, or has gone on.")


class _Wait:
    """A Runner that waits until something is due, or that has got a reply and will ask again.

    Args:
        shard: the sessions whose turns it runs.
        after: the place after which is read.
        number: of the reply that it has got.

    Attributes:
        rows: messages that were stored since that reply, as far as there are not too many.
        until_s: when something is due, as far as that is known; it may only become earlier.
        is_between: it has not asked again yet.
        is_reading: what is due is being read.
        is_over: the Runner has asked again, or the actor stops.
        is_behind: something is due that may stand before the place after which is read: it was noted while that changed, it is
            due in the same second, or the clock was set back.
    """

    def __init__(self, shard: Shard, after: DuePlace | None, number: int) -> None:
        self._shard = shard
        self.number = number
        self.rows: list[ScheduleRow] = []
        self.until_s = math.inf
        self.is_between = True
        self.is_reading = self.is_over = self.is_behind = False
        self._after_s = after.due_s if after is not None else -math.inf
        self._changed = asyncio.Event()

    def note_due(self, due_s: float, *, is_due: bool = False) -> None:
        """Something is due then. `is_due`: it is due now."""
        if due_s <= self._after_s or (is_due and self.is_reading):
            self.is_behind = True
            self._changed.set()
        if due_s < self.until_s:
            self.until_s = due_s
            self._changed.set()

    def note_row(self, row: ScheduleRow) -> None:
        """A message was stored, which is due."""
        if holds(self._shard, row.key):
            if len(self.rows) < PAGE:
                self.rows.append(row)
            else:
                self.is_behind = True
            self._changed.set()

    def end(self) -> None:
        """Wait no more."""
        self.is_over = True
        self._changed.set()

    async def passed(self, now_s: Callable[[], float], longest_nap_s: float) -> None:
        """Return when the time has come."""
        while not (self.is_over or self.is_behind or self.rows) and (left_s := self.until_s - now_s()) > 0:
            self._changed.clear()
            nap_s = None if left_s == math.inf else max(MIN_NAP_S, min(left_s, longest_nap_s))
            with suppress(TimeoutError):
                async with asyncio.timeout(nap_s):
                    await self._changed.wait()
