"""The task that runs a turn, and where the turn is in its life."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import msgspec

from actors.refs.tasks import begin_task
from actors.rules.routing.turn_life import LAUNCHED, Happening, TurnLife


class TurnTask(msgspec.Struct, eq=False):
    """Runs a turn, and stops it as the turn's life allows: see `turn_life`.

    Attributes:
        life: where the turn is in its life.
    """

    life: TurnLife = LAUNCHED
    _task: asyncio.Task[None] | None = None
    _replaced: tuple[TurnTask, ...] = ()

    def start(self, turn: Coroutine[None, None, None], loop: asyncio.AbstractEventLoop) -> None:
        """Run the turn, which ends with `forget`."""
        self._task = begin_task(turn, loop)

    def begin_run(self) -> bool:
        """The task makes its first step. Returns False when the turn was stopped before: then it ends at once."""
        self._happen("begun")
        return self.life.phase == "running"

    def decide_end(self) -> None:
        """Decide that the turn ends: the task stops the rest of it, and closes it."""
        self._happen("decided")

    def cancel(self) -> None:
        """Stop the turn's agents and end it as cancelled, unless how it ends is decided already."""
        self._happen("cancelled")

    def give_up(self) -> None:
        """Stop the turn without a word: all that it writes is refused, its end, too."""
        self._happen("replaced")

    def replace(self, before: TurnTask) -> None:
        """Go on in the place of an older epoch, which may say and write nothing any more. If that was cancelled, so is this."""
        if before.life.was_cancelled:
            self.cancel()
        before.give_up()
        self._replaced = (*self._replaced, *before._replaced, before)

    async def is_alone(self) -> None:
        """Wait until those whose place it takes have ended: what their agents were doing may be done again."""
        for before in self._replaced:
            await before.over()

    async def over(self) -> None:
        """Wait until the task has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def forget(self) -> None:
        """The task makes its last step. On the local engine its context knows the turn: each would leave garbage."""
        self._task, self._replaced = None, ()

    def _happen(self, happening: Happening) -> None:
        self.life, interrupts = self.life.after(happening)
        if interrupts and self._task is not None:
            self._task.cancel()
