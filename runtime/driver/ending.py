"""How a program leaves a deployment, or ends it: at once, or when the turns that run have ended."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from actors.errors import RaygroveError
from actors.errors.calls import explains_all_wrong_calls
from actors.messages import protocol as p
from actors.messages.event import now_s
from actors.messages.shown import Shown
from actors.messages.turn_info import TurnInfo
from actors.rules.checks.arguments import checked_age
from runtime.driver.context_manager import ContextManager
from runtime.driver.turns.methods import TurnMethods

LEASE_S = 60.0
"""For how long actors refuse new turns after they have last heard of the program that drains."""

BEAT_S = 1.0
"""How often they hear of it."""

READERS_S = 2.0
"""How long programs may take to fetch the last events of turns that have ended."""

READERS_POLL_S = 0.02

_END = p.Drain(lease_s=0.0)

MOST_LEFT = 1_000
"""Turns that are named, of those that are left."""


class Drained(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """What became of the turns of a deployment that was drained, and has stopped.

    Attributes:
        left: turns that had not ended in time, at most 1,000. Running ones are open in the store; those that waited in line
            were not stored.
        paused: how many turns wait for answers.
        took_s: how long it took until nothing ran any more, or the time was over.
    """

    left: Sequence[TurnInfo] = ()
    paused: int = 0
    took_s: float = 0.0


@explains_all_wrong_calls
class EndMethods(ContextManager, TurnMethods):
    """The methods of a Runtime that leave or end its deployment."""

    @property
    def _is_started(self) -> bool:
        return self._turns is not None

    def close(self, *, leave_turns: bool = False) -> None:
        """Leave the deployment: one that is detached or was joined goes on, any other is stopped and its turns are cancelled.

        Leaving a `with` block closes, too; by an exception, such as Ctrl-C or SystemExit, with `leave_turns`.

        Args:
            leave_turns: turns under way are not cancelled, but stay open in the store: the next deployment goes on with them when
                they are asked for.

        In a fork of the process that has started the Runtime this does nothing.
        """
        if self._turns is None or self._client.is_forked:
            return
        turns, engine = self._turns, self._client.engine
        self._turns = None
        if engine.lasts:
            self._client.end_loop(turns.leave, engine.leave)
        else:
            self._client.end_loop(partial(engine.stop, leave_turns=leave_turns), turns.close)

    def shutdown(self) -> None:
        """Stop the deployment for good, also one that another program started. Turns that still run are cancelled.

        Raises:
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        turns = self._open_turns()
        self._turns = None
        self._client.end_loop(self._client.engine.stop, turns.close)

    def drain(self, within_s: float | None = None) -> Drained:
        """Stop the deployment for good as soon as the turns that it has accepted have ended. On an event loop: `rt.aio.drain`.

        Until then new turns, answers and retries are refused with DrainingError, in all programs. Turns that run or wait in line
        go on to their ends, and paused ones stay paused. When the time is over, the deployment stops, and turns that still run
        stay open in the store: the next deployment goes on with them when they are asked for. When this program is interrupted
        or lost, the deployment takes new turns again: at once, or after a minute.

        Args:
            within_s: the time that turns have to end; None: any.

        Returns:
            What became of the turns.

        Raises:
            RequestError: `within_s` is no time above zero.
            RuntimeClosedError: the runtime is not started, or is closed.
            ClusterError, StoreError: actors or the store do not answer; the deployment goes on.
        """
        return self._drain(within_s)

    def _drain(self, within_s: float | None, before_stop: Callable[[], None] = lambda: None) -> Drained:
        self._open_turns()
        limit_s = _checked_within(within_s)
        try:
            drained = self._client.run(self._until_drained(limit_s))
            before_stop()
        except BaseException:
            with suppress(RaygroveError):
                self._client.run(self._tell(_END))
            raise
        self._end_drained()
        return drained

    async def _drain_async(self, within_s: float | None = None) -> Drained:
        self._open_turns()
        limit_s = _checked_within(within_s)
        try:
            drained = await self._client.run_async(self._until_drained(limit_s))
        except BaseException:
            with suppress(RaygroveError):
                await self._client.run_async(self._tell(_END))
            raise
        await asyncio.to_thread(self._end_drained)
        return drained

    def _end_drained(self) -> None:
        turns = self._open_turns()
        self._turns = None
        self._client.end_loop(partial(self._client.engine.stop, leave_turns=True), turns.close)

    async def _tell(self, drain: p.Drain) -> int:
        """Tell all actors that the deployment drains. Returns how many turns are left, once there are none or after the wait."""
        engine = self._client.engine
        # First those that Runners ask which are started again.
        await engine.session.ask(drain)
        return (await engine.runner.drain(drain)).left

    async def _until_drained(self, within_s: float) -> Drained:
        engine, clock = self._client.engine, asyncio.get_running_loop().time
        if engine.loop_clock is not None:
            engine.loop_clock.thaw()
        began_s, drain = clock(), p.Drain(lease_s=LEASE_S, since_s=now_s())
        left = 1
        while left and clock() - began_s < within_s:
            wait_s = min(BEAT_S, within_s - (clock() - began_s))
            left = await self._tell(msgspec.structs.replace(drain, wait_s=wait_s))
        took_s = clock() - began_s
        await self._wait_for_readers(drain)
        counts = await engine.session.count_turns(self.app_name)
        return Drained(left=await self._left() if left else (), paused=counts.paused, took_s=took_s)

    async def _wait_for_readers(self, drain: p.Drain) -> None:
        session = self._client.engine.session
        with suppress(TimeoutError):
            async with asyncio.timeout(READERS_S):
                # Programs fetch the ends of turns by polls of their own.
                while (await session.ask(drain)).left:  # noqa: ASYNC110
                    await asyncio.sleep(READERS_POLL_S)

    async def _left(self) -> list[TurnInfo]:
        session = self._client.engine.session
        lists = [
            await session.list_turns(p.ListTurns(app=self.app_name, state=state, limit=MOST_LEFT))
            for state in ("waiting", "running")
        ]
        return [turn for each in lists for turn in each][:MOST_LEFT]


def _checked_within(within_s: float | None) -> float:
    return math.inf if within_s is None else checked_age("within_s", within_s)
