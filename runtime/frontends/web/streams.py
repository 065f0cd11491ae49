"""Server-sent events of turns and sessions: their frames, the response that sends them, and how many may be open.

Only events that are stored have an `id`, their `seq`: so `Last-Event-ID` is always a place in the log.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import lru_cache
from types import TracebackType

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors.errors import ClusterError, RaygroveError, TurnCancelledError, TurnError, TurnTimeoutError
from actors.layers.listing.messages import PendingCall
from actors.messages.event import Event
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.runs import Paused
from actors.messages.turn_info import TurnStateName
from runtime.driver.services.sessions import SessionTail
from runtime.driver.turns.turn import Turn, decoded
from runtime.frontends.web.problems import Problem, TooManyStreamsError, log_failed_turn, problem_of, shown

RETRY = b"retry: 1000\n\n"
"""Tells clients after how many milliseconds they may connect again."""

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, so that proxies do not close a stream in which nothing happens."""

BYE = b"event: bye\ndata: {}\n\n"
"""The server stops: the client goes on at another one, or at this one when it is back."""


def frame(kind: str, value: object, id: int = 0) -> bytes:
    """A frame with a JSON value.

    Args:
        kind: its `event`; "" for none.
        value: anything that has a JSON form.
        id: the position in the log; 0 for none.
    """
    head = (f"id: {id}\n" if id else "") + (f"event: {kind}\n" if kind else "")
    # msgspec writes no line breaks into JSON.
    return head.encode() + b"data: " + msgspec.json.encode(value) + b"\n\n"


def event_frame(event: Event) -> bytes:
    """The frame of an event: `partial` without an id, or `event` with one."""
    return frame("partial", event) if event.partial else frame("event", event, event.seq)


class Slot:
    """The place of one stream, taken before anything is begun for it: what the server has no room to follow must not run.

    As a context manager it is free at the end of the block, unless the block has handed it on with `keep`.

    Args:
        give_back: called once, when the place is free.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back
        self._is_kept = False

    def keep(self) -> None:
        """Hand the place on to a response, which frees it."""
        self._is_kept = True

    def free(self) -> None:
        """Give the place back. Repeated calls do nothing."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._is_kept:
            self.free()


class StreamSlots:
    """Counts open streams, and waiting requests, which hold a turn just so.

    Args:
        for_user: how many a user may have open; a principal without a user counts as one.
        in_all: how many the server has open at most.
    """

    def __init__(self, for_user: int, in_all: int) -> None:
        self._for_user = for_user
        self._in_all = in_all
        self._open: Counter[str | None] = Counter()
        self._taken = 0
        self._closing: asyncio.Event | None = None
        self._is_closed = False

    @property
    def open(self) -> int:
        """The number of open streams."""
        return self._taken

    def refusal(self, unread: int = 0) -> TooManyStreamsError | None:
        """Why no request gets a place; None when there may be one.

        Args:
            unread: so many requests will ask before.
        """
        if self._taken + unread < self._in_all:
            return None
        return TooManyStreamsError(f"this server has {self._in_all} streams open, which is its limit")

    def take(self, user_id: str | None) -> Slot:
        """Take a place.

        Args:
            user_id: whose it is; None: that of a principal for any user, which is counted with the server only.

        Raises:
            TooManyStreamsError: as many are taken as there may be.
        """
        if (refusal := self.refusal()) is not None:
            raise refusal
        if user_id is not None and self._open[user_id] >= self._for_user:
            raise TooManyStreamsError(f"user {user_id!r} has {self._for_user} streams open, which is the limit for a user")
        self._open[user_id] += 1
        self._taken += 1
        return Slot(lambda: self._give_back(user_id))

    def _give_back(self, user_id: str | None) -> None:
        self._open[user_id] -= 1
        self._taken -= 1
        if not self._open[user_id]:
            del self._open[user_id]

    async def wait_until_closing(self) -> None:
        """Wait until the server stops."""
        if self._closing is None:
            # Made on the loop of the first stream.
            self._closing = asyncio.Event()
            if self._is_closed:
                self._closing.set()
        await self._closing.wait()

    def close(self) -> None:
        """End all streams, those too that begin from now on: the server stops."""
        self._is_closed = True
        if self._closing is not None:
            self._closing.set()


KEEP_ALIVE_S = 15.0
"""After so many seconds without a frame a comment is sent."""

SEND_S = 60.0
"""So long a client may leave a frame unread when all buffers are full; then the stream ends, and the client may come back."""

BYE_S = 1.0
"""How long a stopping server waits for a client to take the last frame."""


class EventStream(Response):
    """Sends frames as they come.

    Frames are asked for when the client's connection has room for them: a client that reads nothing holds what came at once, the
    buffers of its connection, and the bounded buffer of the turn.

    Args:
        frames: an async generator. It is closed when the client leaves, which must not cancel a turn.
        slot: the stream's place, free again when the stream has ended.
        headers: more headers.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncIterator[bytes],
        slots: StreamSlots,
        slot: Slot,
        *,
        keep_alive_s: float = KEEP_ALIVE_S,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        # Proxies neither keep nor change nor hold back what is streamed.
        plain = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
        self.init_headers({**plain, **(headers or {})})
        self._frames = frames
        self._slots = slots
        self._slot = slot
        slot.keep()
        self._keep_alive_s = keep_alive_s
        self._sending = asyncio.Lock()
        self._sent_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends, the client leaves, or the server stops."""
        try:
            async with aclosing(self._frames):  # type: ignore[type-var]
                await self._respond(receive, send)
        finally:
            self._slot.free()

    async def _respond(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_all(send))
        leaving = asyncio.create_task(until_left(receive))
        closing = asyncio.create_task(self._slots.wait_until_closing())
        stalling = asyncio.create_task(self._keep_alive(send))
        tasks = (sending, leaving, closing, stalling)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if sending in done:
            sending.result()
        elif closing in done and leaving not in done:
            with suppress(OSError):
                async with asyncio.timeout(BYE_S):
                    await self._send(send, BYE, more=False)

    async def _send_all(self, send: Send) -> None:
        with suppress(OSError):
            await self._send(send, RETRY)
            async for frames in self._frames:
                await self._send(send, frames)
            await self._send(send, b"", more=False)

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        async with self._sending:
            self._sent_s = asyncio.get_running_loop().time()
            await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _keep_alive(self, send: Send) -> None:
        """Send a comment whenever the stream was idle for a while. It returns when the client has read nothing for too long.

        One timer beside the frames: one for each of them would cost as much as sending it.
        """
        clock, idle_s = asyncio.get_running_loop().time, min(self._keep_alive_s, SEND_S)
        rest_s = idle_s
        while True:
            await asyncio.sleep(rest_s)
            rest_s = idle_s
            if self._sending.locked():
                if clock() - self._sent_s >= SEND_S:
                    return
            elif clock() - self._sent_s < idle_s:
                rest_s = self._sent_s + idle_s - clock()
            else:
                with suppress(OSError):
                    async with asyncio.timeout(SEND_S):
                        await self._send(send, KEEP_ALIVE)


async def until_left(receive: Receive) -> None:
    """Return when the client of a request has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


SMALL_BYTES = 32_768
"""An event up to this size has its frame made once for all the streams that it goes to; frames are sent together up to it."""

REMEMBERED = 256
"""Of so many events the frames are remembered, which takes 20 MB at most."""


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last frame of a turn's stream. A stream that ends without it was cut: the client connects again.

    Attributes:
        state: finished, paused, failed or cancelled.
        pending: the calls at which a paused turn waits for a person.
        error: why it failed, or was cancelled.
    """

    invocation_id: str
    state: TurnStateName
    pending: Sequence[PendingCall] = ()
    error: Problem | None = None


async def turn_frames(
    turn: Turn, *, after_seq: int = 0, partials: bool = True, for_operator: bool = False
) -> AsyncIterator[bytes]:
    """The frames of a turn: its events, and how it ended.

    Args:
        turn: leaving its iteration must not cancel it.
        after_seq: leave out stored events up to this one.
        partials: with what is streamed of answers under way.
        for_operator: with the texts and places of errors of users' code.
    """
    try:
        async with aclosing(turn.batches()) as batches:
            async for batch in batches:
                wanted = [stored for stored in batch if (partials and not stored.seq) or stored.seq > after_seq]
                for frames in _frames(wanted, for_operator=for_operator):
                    yield frames
        yield frame("end", await end_of(turn))
    except TurnError as error:
        yield frame("end", failed_end(turn.invocation_id, error, for_operator=for_operator))
    except RaygroveError as error:
        if not isinstance(error, ClusterError):
            yield frame("error", problem_of(error, for_operator=for_operator))
        # After the loss of an actor, or of this server's connection, the client comes back for the rest.
    finally:
        # A turn that goes on sends this server no more news.
        turn.detach()


async def session_frames(tail: SessionTail, *, for_operator: bool = False) -> AsyncIterator[bytes]:
    """The frames of a session: the events of all its turns. They end when the session is deleted."""
    try:
        async with aclosing(tail.batches()) as batches:
            async for batch in batches:
                for frames in _frames(batch, for_operator=for_operator):
                    yield frames
    except RaygroveError as error:
        if not isinstance(error, ClusterError):
            yield frame("error", problem_of(error, for_operator=for_operator))
    finally:
        tail.close()


def _frames(events: Sequence[StoredEvent], *, for_operator: bool) -> Iterator[bytes]:
    """The frames of events that have come at once, several in one piece while they are short. Raises StoreError."""
    piece: list[bytes] = []
    size = 0
    for stored in events:
        make = _frame_again if len(stored.raw) <= SMALL_BYTES else _frame
        piece.append(make(stored.raw, stored.seq, for_operator))
        size += len(piece[-1])
        if size > SMALL_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def _frame(raw: bytes, seq: int, for_operator: bool) -> bytes:
    return event_frame(shown(decoded(StoredEvent(seq, raw)), for_operator=for_operator))


_frame_again = lru_cache(REMEMBERED)(_frame)


async def end_of(turn: Turn) -> TurnEnd:
    """The end of a turn that has neither failed nor was cancelled."""
    if isinstance(turn.outcome, Paused):
        return TurnEnd(invocation_id=turn.invocation_id, state="paused", pending=await turn.aio.pending())
    return TurnEnd(invocation_id=turn.invocation_id, state="finished")


def failed_end(invocation_id: str, error: TurnError, *, for_operator: bool) -> TurnEnd:
    """The end of a turn that failed or was cancelled."""
    is_cancelled = isinstance(error, TurnCancelledError | TurnTimeoutError)
    if not is_cancelled:
        log_failed_turn(invocation_id, str(error))
    problem = problem_of(error, for_operator=for_operator)
    return TurnEnd(invocation_id=invocation_id, state="cancelled" if is_cancelled else "failed", error=problem)
