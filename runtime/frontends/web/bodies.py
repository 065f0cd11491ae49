"""The bodies of requests: how long they may take to come, and how much memory all of them may take."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from runtime.frontends.web.problems import HttpError

KIB, MIB = 1024, 1024 * 1024

SMALL_BYTES = 64 * KIB
"""The beginning of a body that is not counted: small requests are served while large ones fill the memory."""


@dataclass(frozen=True)
class BodyLimits:
    """What the bodies of requests may take of a server.

    Attributes:
        max_bytes: how large one may be.
        max_user_bytes: how much those of one user may take at once.
        max_total_bytes: how much all may take at once. The first 64 KiB of each are not counted.
        timeout_s: how long one may be silent, and how long it may take, beyond the time for `min_bytes_per_s`.
        min_bytes_per_s: the slowest that a client may send.
    """

    max_bytes: int
    max_user_bytes: int = 128 * MIB
    max_total_bytes: int = 512 * MIB
    timeout_s: float = 20.0
    min_bytes_per_s: int = 32 * KIB


class Bodies:
    """The memory of all bodies of a server."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self._held: Counter[str | None] = Counter()

    @property
    def held_bytes(self) -> int:
        """The bytes that all bodies take now."""
        return self._held.total()

    def take_bytes(self, user_id: str | None, size: int) -> None:
        """Count bytes of a user's body. Raises HttpError when there is no room for them.

        Args:
            user_id: None: those of a principal for any user are counted with the server only.
            size: in bytes.
        """
        if self._held.total() + size > self.limits.max_total_bytes:
            raise HttpError(
                503, "this server works on as many large requests as it has memory for: try again", {"Retry-After": "5"}
            )
        if user_id is not None and self._held[user_id] + size > self.limits.max_user_bytes:
            reason = (
                f"requests of user {user_id!r} that are under way have {self.limits.max_user_bytes} bytes, which is the limit"
            )
            raise HttpError(429, reason, {"Retry-After": "5"})
        self._held[user_id] += size

    def give_back(self, user_id: str | None, size: int) -> None:
        """These bytes are not held any more."""
        self._held[user_id] -= size
        if self._held[user_id] <= 0:
            del self._held[user_id]


class RequestBody:
    """The body of one request.

    Args:
        user_id: whose request it is, see `Bodies.take_bytes`.
    """

    def __init__(self, bodies: Bodies, user_id: str | None) -> None:
        self._bodies = bodies
        self._user_id = user_id
        self._counted = 0

    async def read(self, stream: AsyncIterator[bytes]) -> bytes:
        """All of it.

        Raises:
            HttpError: it is too large (413), takes too long (408), or there is no memory for it (429, 503).
        """
        limits, chunks, size = self._bodies.limits, list[bytes](), 0
        since_s = time.monotonic()
        try:
            while True:
                end_s = since_s + limits.timeout_s + size / limits.min_bytes_per_s
                async with asyncio.timeout(min(limits.timeout_s, end_s - time.monotonic())):
                    chunk = await anext(stream, None)
                if chunk is None:
                    return b"".join(chunks)
                size += len(chunk)
                if size > limits.max_bytes:
                    raise HttpError(413, f"the body has more than {limits.max_bytes} bytes, which is the limit of this server")
                self._count(size)
                chunks.append(chunk)
        except TimeoutError:
            slow = f"send it at {limits.min_bytes_per_s} bytes a second at least, without a pause of {limits.timeout_s:g} s"
            raise HttpError(408, f"the body took too long: {slow}", {"Connection": "close"}) from None

    def release(self) -> None:
        """It is not needed any more."""
        if self._counted:
            self._bodies.give_back(self._user_id, self._counted)
            self._counted = 0

    def _count(self, size: int) -> None:
        counted = max(0, size - SMALL_BYTES)
        if counted > self._counted:
            self._bodies.take_bytes(self._user_id, counted - self._counted)
            self._counted = counted
