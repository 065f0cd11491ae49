"""The response that sends a stream: it keeps idle connections alive, and ends when the client leaves or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from runtime.frontends.web.streams.frames import BYE, KEEP_ALIVE, RETRY
from runtime.frontends.web.streams.slots import Slot, StreamSlots

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
        leaving = asyncio.create_task(_until_left(receive))
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


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
