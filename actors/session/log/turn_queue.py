"""The turns of one session that wait for the one that runs, first come first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from actors.errors import RaygroveError, TurnCancelledError
from actors.messages.session import SessionKey


class Waiter:
    """A turn in the queue, and the Runner that wants to run it.

    Attributes:
        interrupts: it waits only for the turn that is being cancelled for it.
        is_answer: it has begun before, and is to go on with an answer.
        fingerprint: see StartTurn.
        event_id: of the user's event.
        admitted: True when it may begin; False when its request is to be decided once more, since another turn has begun, which
            it has to interrupt first, or which began with its own event, or since its Runner was lost.
    """

    def __init__(self, invocation_id: str, runner: str, *, interrupts: bool = False, is_answer: bool = False) -> None:
        self.invocation_id = invocation_id
        self.runner = runner
        self.interrupts = interrupts
        self.is_answer = is_answer
        self.fingerprint = self.event_id = ""
        self.admitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class TurnQueue:
    """Lets one turn of a session run at a time.

    Attributes:
        is_taken: the session is in use: by an open turn, by one that is about to begin, or by a rewind or a deletion.
    """

    def __init__(self) -> None:
        self._is_taken = False
        self._listed: tuple[dict[SessionKey, None], SessionKey] | None = None
        self._waiters: deque[Waiter] = deque()

    @property
    def is_taken(self) -> bool:
        """See the class."""
        return self._is_taken

    @is_taken.setter
    def is_taken(self, is_taken: bool) -> None:
        self._is_taken = is_taken
        if self._listed is not None:
            sessions, key = self._listed
            if is_taken:
                sessions[key] = None
            else:
                sessions.pop(key, None)

    def list_in(self, sessions: dict[SessionKey, None], key: SessionKey) -> None:
        """Have the session's key among others as long as it is taken, from now on."""
        self._listed = sessions, key
        self.is_taken = self._is_taken

    def unlist(self) -> None:
        """Have the session's key there no longer, whatever becomes of the queue."""
        if self._listed is not None:
            sessions, key = self._listed
            self._listed = None
            sessions.pop(key, None)

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._waiters)

    def has(self, invocation_id: str) -> bool:
        """True when the turn waits in the queue."""
        return any(waiter.invocation_id == invocation_id for waiter in self._waiters)

    def has_new(self, invocation_id: str) -> bool:
        """True when the turn waits in the queue and has not begun yet."""
        return any(waiter.invocation_id == invocation_id and not waiter.is_answer for waiter in self._waiters)

    def has_event(self, event_id: str) -> bool:
        """True when a request with this very event waits in the queue."""
        return any(waiter.event_id == event_id for waiter in self._waiters)

    def fingerprint(self, invocation_id: str) -> str:
        """That of the request whose turn waits in the queue and has not begun yet; "" when it has none."""
        waiting = (waiter for waiter in self._waiters if waiter.invocation_id == invocation_id and not waiter.is_answer)
        return next((waiter.fingerprint for waiter in waiting), "")

    def is_idle(self) -> bool:
        """True when no turn runs or waits."""
        return not self.is_taken and not self._waiters

    async def enqueue(self, waiter: Waiter) -> bool:
        """Wait until the turns before have ended; a turn that interrupts goes to the head. Returns `Waiter.admitted`.

        A request that was sent again takes the place of the first one, whose reply may be lost.
        """
        again = next((place for place, each in enumerate(self._waiters) if each.event_id == waiter.event_id), None)
        if again is not None:
            before, self._waiters[again] = self._waiters[again], waiter
            if not before.admitted.done():
                before.admitted.set_exception(RaygroveError(f"the request for turn {waiter.invocation_id!r} was sent again"))
        elif waiter.interrupts:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        return await waiter.admitted

    def start_next(self) -> None:
        """Let the next turn begin. The session stays taken meanwhile, so that no new request overtakes the queue."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.admitted.done():
                waiter.admitted.set_result(True)
                return
        self.is_taken = False

    def reject_interrupter(self) -> None:
        """Send back a queued interrupter whose target had not begun when it queued: it must cancel this turn first."""
        if self._waiters and self._waiters[0].interrupts:
            waiter = self._waiters.popleft()
            if not waiter.admitted.done():
                waiter.admitted.set_result(False)

    def send_back(self, which: Callable[[Waiter], bool]) -> None:
        """Take turns out of the queue; their requests are decided once more."""
        for waiter in [each for each in self._waiters if which(each)]:
            self._waiters.remove(waiter)
            if not waiter.admitted.done():
                waiter.admitted.set_result(False)

    def cancel(self, invocation_id: str) -> bool:
        """Remove a turn, which may not be here: its requests raise TurnCancelledError. Returns True when it was here."""
        waiting = [waiter for waiter in self._waiters if waiter.invocation_id == invocation_id]
        for waiter in waiting:
            self.remove(waiter, TurnCancelledError(invocation_id))
        return bool(waiting)

    def remove(self, waiter: Waiter, reason: Exception) -> None:
        """Remove a turn from the queue; `enqueue` raises the reason."""
        self._waiters.remove(waiter)
        if not waiter.admitted.done():
            waiter.admitted.set_exception(reason)
