"""When a connection writes: at once, or together with what else comes in the same pass of the event loop."""

from __future__ import annotations

import asyncio
import sys

from runtime.transport.protocol.outbox import GATHERED_BYTES, FrameQueue

HIGH_WATER = 256 * 1024
"""Bytes in the transport's own buffer from which on frames wait in the outbox."""

LONE_PASSES = 16
"""After so many passes of the event loop with one short frame each, a frame is written at once."""


class Writer:
    """Writes what an outbox holds.

    Short frames of one pass of the event loop gather, and are written together: each write wakes the peer, which on a busy
    machine takes the CPU from this process at once. Where frames come one by one, as those of a single session do, none waits.

    Args:
        frames_at_once: so many frames are written although the pass goes on, and the peer works on them meanwhile; None: however
            many there are, they wait for its end.
    """

    def __init__(self, transport: asyncio.WriteTransport, outbox: FrameQueue, frames_at_once: int | None = None) -> None:
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport
        self._outbox = outbox
        self._loop = asyncio.get_running_loop()
        # asyncio's own transports, of Python 3.12 to 3.13.1, take any number of bytes by `writelines` and do not say that they
        # are full. Those before joined the parts themselves.
        self._pauses_writelines = not isinstance(self._loop, asyncio.BaseEventLoop)
        self._is_paused = False
        self._is_gathering = False
        self._frames_before = self._frames_written = outbox.short_frames
        self._frames_at_once = frames_at_once or sys.maxsize
        self._lone_passes = LONE_PASSES

    def pump(self) -> None:
        """Called when something was put into the outbox."""
        outbox = self._outbox
        short_bytes, long_bytes = outbox.short_bytes, outbox.long_bytes
        if not short_bytes and not long_bytes:
            return
        if not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self._end_pass)
            if self._lone_passes >= LONE_PASSES:
                self.flush()
                return
        if long_bytes or short_bytes >= GATHERED_BYTES or outbox.short_frames - self._frames_written >= self._frames_at_once:
            self.flush()

    def _end_pass(self) -> None:
        outbox = self._outbox
        frames = outbox.short_frames
        self._lone_passes = self._lone_passes + 1 if frames == self._frames_before + 1 else 0
        self._frames_before = frames
        self._is_gathering = False
        if outbox.short_bytes or outbox.long_bytes:
            self.flush()

    def pause(self) -> None:
        """The transport's buffer is full."""
        self._is_paused = True

    def resume(self) -> None:
        """The transport's buffer is empty enough."""
        self._is_paused = False
        self.flush()

    def flush(self) -> None:
        """Write what waits, as far as the transport has room."""
        outbox = self._outbox
        while (outbox.short_bytes or outbox.long_bytes) and not self._is_paused:
            parts = outbox.take_frames()
            if len(parts) == 1:
                self._transport.write(parts[0])
            elif self._pauses_writelines:
                self._transport.writelines(parts)
            else:
                self._transport.write(b"".join(parts))
        self._frames_written = outbox.short_frames
