"""Turns of one session that wait for the one that runs, first come first served."""

from __future__ import annotations

import asyncio


class Waiter:
    """A turn in line, and the Runner that wants to run it.

    Attributes:
        interrupts: it waits only for the turn that is being cancelled for it.
        admitted: True when it may begin; False when another has begun that it has to interrupt.
    """

    def __init__(self, invocation_id: str, runner: str, *, interrupts: bool = False) -> None:
        self.invocation_id = invocation_id
        self.runner = runner
        self.interrupts = interrupts
        self.admitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
