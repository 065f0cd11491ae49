"""The state of one turn in a driver: its ids, its end, and its events, in a buffer for each of its readers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, NamedTuple, TypeVar

import msgspec

from actors.errors import RaygroveError, RepeatMismatchError
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.protocol.subscriptions import TurnRead
from actors.messages.session import SessionKey, TurnKey
from actors.rules.event_buffer import EventBuffer
from actors.rules.partials import AnswerPartials, Stream, rest_of, stream_of
from runtime.driver.engine_client import HomeProcess, ThreadSignal


class TurnReaders(msgspec.Struct, eq=False):
    """Gives each event of a turn to every reader. Its caller must hold the turn's lock.

    The first reader gets the partial events that came before it. Then they are dropped, since later readers find the same text
    in the complete events. Of answers that are not complete yet, later readers get all partials, merged.

    """

    _kept: EventBuffer
    _keeps: bool
    _keeps_partials: bool
    _answers: dict[Stream, AnswerPartials] = {}
    _open: Sequence[EventBuffer] = ()
    _late: Sequence[EventBuffer] = ()
    """Those that read the log up to now, and then get the answers under way."""

    @classmethod
    def after(cls, after_seq: int, *, keeps: bool) -> TurnReaders:
        """The readers of a turn of which none wants events up to `after_seq`.

        Args:
            keeps: keep events for readers that open later. Otherwise those read the log, and memory holds only what the open
                readers have yet to get: for what is followed for hours.
        """
        return cls(EventBuffer(after_seq), keeps, keeps)

    @property
    def after_seq(self) -> int:
        """`seq` of the last complete event that was put in."""
        return self._kept.head_seq

    def put_events(self, events: Sequence[StoredEvent]) -> None:
        """Add events. The buffers skip those that come twice because the turn was subscribed to twice."""
        for event in events:
            if not event.seq:
                self._answers.setdefault(stream_of(event.raw), AnswerPartials()).add([event])
            elif self._answers and event.seq > self.after_seq:
                self._answers.pop(stream_of(event.raw), None)
            self._give(event)

    def _give(self, event: StoredEvent) -> None:
        if event.seq and not self._keeps:
            self._kept.expect(event.seq)
        elif event.seq or self._keeps_partials:
            self._kept.put_event(event)
        for buffer in self._open:
            buffer.put_event(event)

    def put_answers(self, partials: Sequence[StoredEvent]) -> None:
        """Add what has been streamed of answers under way, each from its beginning. Readers get what they do not have of it."""
        told: dict[Stream, list[StoredEvent]] = {}
        for partial in partials:
            told.setdefault(stream_of(partial.raw), []).append(partial)
        for stream, whole in told.items():
            known = self._answers.get(stream)
            # Of an answer that became too long no reader gets more before it is complete.
            if known is None or known.is_whole:
                for partial in rest_of(known.partials() if known is not None else (), whole):
                    self._give(partial)
            self._answers[stream] = answer = AnswerPartials()
            answer.add(whole)

    def answers_under_way(self) -> dict[Stream, AnswerPartials]:
        """The parts streamed so far of answers that are not complete."""
        return {stream: answer.copy() for stream, answer in self._answers.items()}

    def join(self, head_seq: int, answers: dict[Stream, AnswerPartials]) -> None:
        """Begin after others: read events up to `head_seq` from the log, and know what has been streamed of answers by now."""
        self._keeps = self._keeps_partials = False
        self._kept.expect(head_seq)
        self._answers = answers
        for buffer in self._open:
            buffer.expect(head_seq)
            self._begin_late(buffer)

    def skip(self, seq: int) -> None:
        """Drop the events up to `seq`, those too that have yet to come."""
        self._kept.skip(seq)
        for buffer in self._open:
            buffer.skip(seq)

    def open(self) -> EventBuffer:
        """A buffer for a new reader, with all events so far; later ones are added to it until it is closed."""
        buffer = self._kept.copy()
        self._open = (*self._open, buffer)
        if self._keeps_partials:
            self._keeps_partials = False
            self._kept.drop_partials()
        else:
            self._begin_late(buffer)
        return buffer

    def _begin_late(self, buffer: EventBuffer) -> None:
        if buffer.is_behind:
            self._late = (*self._late, buffer)
        else:
            self._put_answers_under_way(buffer)

    def catch_up(self, buffer: EventBuffer, page: TurnRead, head_seq: int) -> None:
        """Add a page of the log to a reader's buffer: see EventBuffer.catch_up."""
        buffer.catch_up(page, head_seq)
        if not buffer.is_behind and buffer in self._late:
            self._late = [each for each in self._late if each is not buffer]
            self._put_answers_under_way(buffer)

    def _put_answers_under_way(self, buffer: EventBuffer) -> None:
        partials = [partial for answer in self._answers.values() for partial in answer.partials()]
        buffer.begin_anew(partials, [stream for stream, answer in self._answers.items() if not answer.is_whole])
        for partial in partials:
            buffer.put_event(partial)

    def close(self, buffer: EventBuffer) -> None:
        """Add no more events to a reader's buffer."""
        self._open = [each for each in self._open if each is not buffer]
        self._late = [each for each in self._late if each is not buffer]

    def held(self) -> list[StoredEvent] | None:
        """All events so far; None where some of them have to be read from the log."""
        return self._kept.held()

    def copy(self) -> EventBuffer:
        """A buffer with all events so far, to which none are added."""
        return self._kept.copy()


T = TypeVar("T")


class GivenMessage(NamedTuple):
    """A message that was given to a turn that runs.

    Attributes:
        begins: the turn that it begins if no agent reads it.
        joined: the turn that it was given to.
    """

    event_id: str
    begins: str
    joined: str


class TurnState:
    """The buffer between a turn's subscriber and its readers.

    The portal's thread writes it; any thread and any event loop may read it and wait for its changes. In a fork of the process,
    which has no such thread, these methods raise ForkedProcessError.

    Args:
        after_seq: `seq` of the last event that no reader wants.
        keeps: keep events for readers that open later: see TurnReaders.

    Attributes:
        invocation_id: the turn's id; that of an answer changes when the turn is open.
        is_answer: the turn answers a long-running call, and continues under the id of the turn that made the call.
        opened_seq: the position of the answer in the log; 0 when that is not known, or the turn answers nothing.
        is_repeated: the turn was there before this driver has asked for it; False while that is not known.
        agent: the agent selected for the turn; "" before the turn is open, and when it could not start.
        outcome: how the turn ended; None before.
        error: why the turn could not start, or can no longer be followed.
        ask_again: sends the request once more by which the turn, which it is given, has joined another; None: there is none.
        has_begun: its message is in the log; False while that is not known.
        is_started: the turn is open, or could not start, or is followed no more.
        may_join: its message may be given to another turn that runs.
        message: its message, if it was.
        fingerprint: of the request for a turn of that id, which may have begun with another request, and is given to none but its
            own; "": it has none, or the id is that of another turn, which goes on with it.
        is_refused: what has come of the turn of that id is not given, since it may have begun with another request.
        is_cancelled: this driver was asked to cancel it.
        is_detached: this driver follows the turn no more, and does not know how it ends.
        is_over: the turn has ended, or is no longer followed.
        turn_key: the session and the invocation id as it is now: see `rename`.
    """

    opened_seq = 0
    is_repeated = False
    ask_again: Callable[[TurnState], object] | None = None
    agent = ""
    outcome: AnyOutcome | None = None
    error: BaseException | None = None
    has_begun = is_started = False
    may_join = False
    message: GivenMessage | None = None
    fingerprint = ""
    is_refused = False
    is_cancelled = False
    is_detached = False
    is_over = False

    def __init__(
        self, key: SessionKey, invocation_id: str, *, after_seq: int = 0, is_answer: bool = False, keeps: bool = True
    ) -> None:
        self.key = key
        self.invocation_id = invocation_id
        self.turn_key: TurnKey = (key, invocation_id)
        self.is_answer = is_answer
        self._home = HomeProcess.here
        self._readers = TurnReaders.after(after_seq, keeps=keeps)
        self._changed = Changed()

    def rename(self, invocation_id: str) -> None:
        """Give the turn the id under which it goes on."""
        self.invocation_id = invocation_id
        self.turn_key = (self.key, invocation_id)
        self.fingerprint, self.has_begun = "", False

    @property
    def after_seq(self) -> int:
        """`seq` of the last complete event that has come."""
        return self._readers.after_seq

    def mark_started(self, agent: str, seq: int = 0) -> None:
        """Note that the turn is open. Readers get no event up to `seq`, that of the user's message."""
        self.agent = agent
        with self._changed.lock:
            self._readers.skip(seq)
            self.is_started = True
            self._changed.wake_starters()
            if self.is_over:
                self._changed.wake_enders()

    def join(self, peer: TurnState, head_seq: int) -> None:
        """Follow the turn beside another object of it, which is up to `head_seq`: earlier events are read from the log."""
        with peer._changed.lock:
            answers = peer._readers.answers_under_way()
        with self._changed.lock:
            self._readers.join(head_seq, answers)
            self._changed.wake_readers()

    def feed(
        self,
        events: Sequence[StoredEvent],
        outcome: AnyOutcome | None,
        answers: Sequence[StoredEvent] = (),
        woken: Woken | None = None,
    ) -> None:
        """Add events, then what was streamed of the answers under way, and the outcome when the turn has ended.

        Args:
            woken: takes the coroutines that wait for this, for the caller to wake them; None: they are woken here.
        """
        with self._changed.lock:
            self._readers.put_events(events)
            if answers:
                self._readers.put_answers(answers)
            self.outcome = outcome
            self.is_over = outcome is not None or self.error is not None or self.is_detached
            self._changed.wake_readers(woken)
            if outcome is not None and self.is_started:
                self._changed.wake_enders(woken)

    def fail(self, error: BaseException) -> None:
        """End the turn for this driver, unless it has ended: it could not start, or can no longer be followed."""
        with self._changed.lock:
            if isinstance(error, RepeatMismatchError) or (self.fingerprint and not self.is_started):
                # The turn of that id is another request's, or may be, and its end may have come first.
                self.outcome, self.is_refused = None, True
            self.is_started = self.is_over = True
            if self.outcome is None:
                # The traceback may hold this turn. That of an error which is not ours may tell of a defect.
                self.error = error.with_traceback(None) if isinstance(error, RaygroveError) else error
            self._changed.wake_all()

    def detach(self) -> None:
        """Stop following the turn, unless it has ended: readers get what has come so far."""
        with self._changed.lock:
            self.is_started = self.is_over = True
            self.is_detached = self.outcome is None and self.error is None
            self._changed.wake_all()

    def open_reader(self) -> EventBuffer:
        """A buffer with the turn's events; later ones are added to it until it is closed."""
        self._home.check(self.key.app)
        with self._changed.lock:
            return self._readers.open()

    def close_reader(self, buffer: EventBuffer) -> None:
        """Add no more events to a reader's buffer."""
        if not self._home.is_here():
            # The thread that has the lock may be one that a fork does not have.
            return
        with self._changed.lock:
            self._readers.close(buffer)

    def held_events(self) -> list[StoredEvent] | None:
        """All events so far; None where some of them have to be read from the log: see `copy_events`."""
        self._home.check(self.key.app)
        with self._changed.lock:
            return self._readers.held()

    def copy_events(self) -> EventBuffer:
        """A buffer with all events so far, to which none are added."""
        self._home.check(self.key.app)
        with self._changed.lock:
            return self._readers.copy()

    def wait_until_started(self) -> None:
        """Wait until the turn is open, or could not start."""
        self._home.check(self.key.app)
        self._changed.wait_for(lambda: self.is_started or None, self._changed.starters)

    async def wait_until_started_async(self) -> None:
        """Wait until the turn is open, or could not start, on the running event loop."""
        self._home.check(self.key.app)
        await self._changed.wait_for_async(lambda: self.is_started, self._changed.starters)

    def wait_for_events(self, buffer: EventBuffer) -> list[StoredEvent]:
        """Wait until a reader's buffer has events, or has to read the log, or the turn is over, and take its events."""
        self._home.check(self.key.app)
        return self._changed.wait_for(
            lambda: buffer.take_events() if buffer.has_news or self.is_over else None, self._changed.readers
        )

    async def wait_for_events_async(self, buffer: EventBuffer, wakeup: LoopSignal) -> list[StoredEvent]:
        """Wait for events as `wait_for_events` does, on the event loop of `wakeup`."""
        self._home.check(self.key.app)
        while True:
            with self._changed.lock:
                if buffer.has_news or self.is_over:
                    return buffer.take_events()
                self._changed.readers.append(wakeup)
            await wakeup.wait()

    def catch_up(self, buffer: EventBuffer, page: TurnRead, head_seq: int) -> None:
        """Add a page of the log to a reader's buffer: see EventBuffer.catch_up."""
        with self._changed.lock:
            self._readers.catch_up(buffer, page, head_seq)

    def wait_for_end(self) -> None:
        """Wait until the turn is over, and all is known of it: the reply to its start may come after its end."""
        self._home.check(self.key.app)
        self._changed.wait_for(lambda: (self.is_started and self.is_over) or None, self._changed.enders)

    def wait_for_end_async(self) -> Coroutine[Any, Any, None]:
        """Wait on the running event loop: see `wait_for_end`."""
        self._home.check(self.key.app)
        return self._changed.wait_for_async(lambda: self.is_started and self.is_over, self._changed.enders)


def raisable(error: BaseException) -> BaseException:
    """The error to raise for `TurnState.error`: a copy of it, where it is one of ours.

    What is raised holds the frames that it passes, these hold the turn, and the turn its error. Were that the one that is
    raised, only the collector would find them, 23 objects a turn, and of turns that are refused there may be thousands a second.
    """
    if not isinstance(error, RaygroveError):
        return error
    raised = copy(error)
    raised.__cause__ = error.__cause__
    return raised


class Changed(msgspec.Struct, eq=False):
    """Who waits for a turn to change: threads, and coroutines of any event loop.

    Attributes:
        lock: has to be entered itself, by `with changed.lock`: the interpreter takes and gives it back without looking for
            Ctrl-C in between, which a method of ours would not. It is taken again by the same thread when garbage is collected
            meanwhile, and a reader with it.
        readers: wait for events. These lists are read and written with the lock.
        starters: wait for the start, to which events bring nothing.
        enders: wait until the turn is over and was started, to which neither events nor the start alone bring anything.
    """

    lock: threading.RLock = msgspec.field(default_factory=threading.RLock)
    readers: list[Sleeper] = []
    starters: list[Sleeper] = []
    enders: list[Sleeper] = []

    def wake_readers(self, woken: Woken | None = None) -> None:
        """Wake what waits for events. The caller has the lock. `woken`: see TurnState.feed."""
        if self.readers:
            _wake(self.readers, woken)

    def wake_starters(self) -> None:
        """Wake what waits for the start. The caller has the lock."""
        if self.starters:
            _wake(self.starters, None)

    def wake_enders(self, woken: Woken | None = None) -> None:
        """Wake what waits for the end. The caller has the lock. `woken`: see TurnState.feed."""
        if self.enders:
            _wake(self.enders, woken)

    def wake_all(self) -> None:
        """Wake everything that waits. The caller has the lock."""
        self.wake_starters()
        self.wake_readers()
        self.wake_enders()

    def wait_for(self, look: Callable[[], T | None], sleepers: list[Sleeper]) -> T:
        """Wait until `look`, which is called with the lock, returns something. The caller does not have the lock."""
        while True:
            with self.lock:
                found = look()
                if found is not None:
                    return found
                signal = ThreadSignal()
                sleepers.append(signal)
            signal.wait()

    async def wait_for_async(self, is_so: Callable[[], bool], sleepers: list[Sleeper]) -> None:
        """Wait until something is so, on the running event loop. The caller does not have the lock."""
        wakeup: LoopSignal | None = None
        while True:
            with self.lock:
                if is_so():
                    return
                wakeup = wakeup or LoopSignal()
                sleepers.append(wakeup)
            await wakeup.wait()


class LoopSignal(msgspec.Struct, eq=False):
    """Wakes a coroutine of the running event loop, from any thread.

    Attributes:
        loop: of the coroutine.
    """

    loop: asyncio.AbstractEventLoop = msgspec.field(default_factory=asyncio.get_running_loop)
    _waiting: asyncio.Future[None] | None = None

    def wait(self) -> asyncio.Future[None]:
        """Done at the next `set`, which comes on this loop: not before the caller awaits it. One coroutine waits at a time."""
        self._waiting = self.loop.create_future()
        return self._waiting

    def ring(self) -> None:
        """Have `wait` return, from any thread."""
        # On a loop that was closed in the meantime nothing waits any more.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.set)

    def set(self) -> None:
        """Have `wait` return, on the loop."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


Sleeper = ThreadSignal | LoopSignal
"""A thread or a coroutine that waits."""

Woken = list[LoopSignal]
"""Coroutines that are to be woken."""


def _wake(sleepers: list[Sleeper], woken: Woken | None) -> None:
    while sleepers:
        sleeper = sleepers.pop()
        if woken is None or isinstance(sleeper, ThreadSignal):
            sleeper.ring()
        else:
            woken.append(sleeper)


def wake_together(woken: Woken) -> None:
    """Wake coroutines, those of one loop at once: to wake a loop of another thread is a system call."""
    if len(woken) <= 1:
        for wakeup in woken:
            wakeup.ring()
        return
    of_loops: dict[asyncio.AbstractEventLoop, Woken] = {}
    for wakeup in woken:
        of_loops.setdefault(wakeup.loop, []).append(wakeup)
    for loop, wakeups in of_loops.items():
        # On a loop that was closed in the meantime nothing waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set_all, wakeups)


def _set_all(woken: Woken) -> None:
    for wakeup in woken:
        wakeup.set()
