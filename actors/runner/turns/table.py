"""What goes on with each turn in this Runner: it is opened, it is resumed, it runs, or it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec

from actors.actor import KeyedLocks
from actors.errors import RepeatMismatchError
from actors.messages.session import TurnKey
from actors.runner.running.running_turn import RunningTurn, TurnTask
from actors.runner.turns.user_message import PreparedMessage


class _Entry(msgspec.Struct, eq=False):
    """One turn, for as long as anything goes on with it.

    Attributes:
        closing: its task, while the end of the turn is on its way to the store.
        epochs: the newest in which it ran, by the generation of the log: one that was rewound may begin again under its id, with
            the first epoch.
        openings: how many requests open it; the same turn may be asked for several times at once.
        opened: done when no request opens it any more; None: nothing waits for that.
        prepared: its message, if that was prepared for a request that opens it, with the fingerprint of that request.
    """

    running: RunningTurn | None = None
    closing: TurnTask | None = None
    epochs: dict[str, int] = {}
    openings: int = 0
    opened: asyncio.Future[None] | None = None
    prepared: tuple[str, PreparedMessage] | None = None


class TurnTable:
    """The turns of this Runner that run, are about to, or are just ending.

    The Session actor may have opened a turn while the Runner still waits for the reply. Such a turn is in the table: it is not
    lost, so it must not be resumed, and a cancel has to wait for it. A restarted Session actor does not know that, and has it
    resumed for another request: then the reply that comes last must not replace the newer epoch, nor repeat what that has done.
    """

    def __init__(self) -> None:
        self._entries: dict[TurnKey, _Entry] = {}
        self._resuming: KeyedLocks[TurnKey] = KeyedLocks()
        self._emptied: asyncio.Event | None = None

    def __len__(self) -> int:
        """The number of turns that run."""
        return len(self.running())

    def __contains__(self, turn: TurnKey) -> bool:
        """True when the turn runs, is being opened or is being closed."""
        entry = self._entries.get(turn)
        return entry is not None and bool(entry.running or entry.openings or entry.closing)

    async def emptied(self, timeout_s: float) -> int:
        """Wait until nothing goes on with any turn, but at most so long. Returns with how many something does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._entries:
                    self._emptied = self._emptied or asyncio.Event()
                    await self._emptied.wait()
        return len(self._entries)

    def running(self) -> list[TurnKey]:
        """The turns that run."""
        return [turn for turn, entry in self._entries.items() if entry.running is not None]

    def get(self, turn: TurnKey) -> RunningTurn | None:
        """The turn, if it runs."""
        entry = self._entries.get(turn)
        return entry.running if entry is not None else None

    def add(self, running: RunningTurn) -> bool:
        """A turn is to run; it replaces the one that runs here in an older epoch.

        Returns:
            False when it runs here in this epoch or a newer one, or has ended since the request began that is to run it:
            nothing is added.
        """
        entry = self._entry(running.key)
        ref = running.ref
        if entry.epochs.get(ref.generation, 0) >= ref.epoch:
            return False
        if entry.running is not None:
            running.task.replace(entry.running.task)
        entry.running = running
        entry.epochs[ref.generation] = ref.epoch
        return True

    @contextmanager
    def closing(self, running: RunningTurn) -> Iterator[None]:
        """A turn runs no more, and inside the block it is being closed. If replaced, the newer one runs on."""
        entry = self._entry(running.key)
        if entry.running is running:
            entry.running = None
        entry.closing = running.task
        try:
            yield
        finally:
            # A newer epoch may be closed before the one that it has replaced, and with that all be over.
            if entry.closing is running.task:
                entry.closing = None
                self._drop(running.key, entry)

    def remove(self, running: RunningTurn) -> None:
        """A turn runs no more, and the store has its end. If replaced, the newer one runs on."""
        entry = self._entries.get(running.key)
        if entry is not None and entry.running is running:
            entry.running = None
            self._drop(running.key, entry)

    async def closed(self, turn: TurnKey) -> None:
        """Wait while the turn is being closed."""
        entry = self._entries.get(turn)
        if entry is not None and entry.closing is not None:
            await entry.closing.over()

    @contextmanager
    def opening(self, turn: TurnKey) -> Iterator[None]:
        """Inside the block a request opens the turn. A turn that is added there is never seen as absent."""
        entry = self._entry(turn)
        entry.openings += 1
        try:
            yield
        finally:
            entry.openings -= 1
            if not entry.openings:
                entry.prepared = None
                if entry.opened is not None:
                    entry.opened.set_result(None)
                    entry.opened = None
            self._drop(turn, entry)

    def is_opening(self, turn: TurnKey) -> bool:
        """True while a request opens the turn."""
        entry = self._entries.get(turn)
        return entry is not None and bool(entry.openings)

    async def opened(self, turn: TurnKey, timeout_s: float) -> None:
        """Wait until no request opens the turn, but at most `timeout_s` seconds."""
        entry = self._entries.get(turn)
        if entry is not None and entry.openings:
            entry.opened = entry.opened or asyncio.get_running_loop().create_future()
            await asyncio.wait([entry.opened], timeout=timeout_s)

    def prepared(self, turn: TurnKey, fingerprint: str) -> PreparedMessage | None:
        """The turn's message, if it was prepared for another request that opens the turn now.

        Raises:
            RepeatMismatchError: that request has another fingerprint.
        """
        entry = self._entries.get(turn)
        before, message = entry.prepared if entry is not None and entry.prepared is not None else ("", None)
        if message is not None and fingerprint not in ("", before):
            raise RepeatMismatchError(turn[1], turn[0].session)
        return message

    def note_prepared(self, turn: TurnKey, fingerprint: str, message: PreparedMessage) -> None:
        """The turn's message is prepared, for all requests that open the turn as long as one does."""
        self._entry(turn).prepared = fingerprint, message

    @asynccontextmanager
    async def resuming(self, turn: TurnKey) -> AsyncIterator[None]:
        """Inside the block no other request resumes the turn."""
        entry = self._entry(turn)
        try:
            async with self._resuming.locked(turn):
                yield
        finally:
            self._drop(turn, entry)

    def is_resuming(self, turn: TurnKey) -> bool:
        """True while a request resumes the turn."""
        return self._resuming.is_held(turn)

    async def resumed(self, turn: TurnKey) -> None:
        """Wait until the requests that resume the turn now are over."""
        if self.is_resuming(turn):
            async with self.resuming(turn):
                pass

    def _entry(self, turn: TurnKey) -> _Entry:
        entry = self._entries.get(turn)
        if entry is None:
            entry = self._entries[turn] = _Entry()
        return entry

    def _drop(self, turn: TurnKey, entry: _Entry) -> None:
        is_idle = not (entry.openings or entry.running or entry.closing or self.is_resuming(turn))
        if is_idle and self._entries.get(turn) is entry:
            del self._entries[turn]
            if not self._entries and self._emptied is not None:
                self._emptied.set()
                self._emptied = None
