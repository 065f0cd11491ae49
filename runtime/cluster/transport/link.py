"""The way to an actor in another process, over Ray."""

from __future__ import annotations

import asyncio
from typing import Any

from ray.actor import ActorHandle
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

from actors.errors import ActorLostError, ActorRestartsError, ClusterError

Handle = ActorHandle[Any]
"""What Ray gives for an actor: it can be sent to other processes."""

PAUSE_S = 0.05
"""Between two tries to reach an actor that is being started again."""


class RayLink:
    """A way to the actor in a host.

    Args:
        name: the actor's, for messages.
        patience_s: how long an actor that Ray starts again may take for it; 0: a lost process is not waited for.
        seat: its number, in a host that has several.
    """

    def __init__(self, handle: Handle, name: str, patience_s: float = 0.0, seat: int = 0) -> None:
        self.handle = handle
        self.name = name
        self._patience_s = patience_s
        # The first one's is not sent along: most hosts have one only.
        self._to = (seat,) if seat else ()

    async def send(self, raw: bytes, *, once: bool = False) -> bytes:
        """Deliver a message and return the reply: see Link."""
        given_up_s: float | None = None
        while True:
            try:
                reply: bytes = await self.handle.receive.remote(raw, *self._to)
                return reply
            except ActorUnavailableError as error:
                now_s = asyncio.get_running_loop().time()
                given_up_s = given_up_s or now_s + self._patience_s
                if now_s >= given_up_s:
                    raise ActorLostError(self.name, told(error)) from error
                if once:
                    raise ActorRestartsError(self.name, told(error)) from error
                # Ray tells nobody when it lives again.
                await asyncio.sleep(PAUSE_S)
            except RayActorError as error:
                raise ActorLostError(self.name, told(error)) from error
            except RayTaskError as error:
                raise ClusterError(f"{self.name} failed: {error.cause or error}") from error


def told(error: RayActorError) -> str:
    """The last line that says something, of what Ray tells in many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
