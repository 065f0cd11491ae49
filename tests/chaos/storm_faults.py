"""Loses and stops the processes of a deployment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from contextlib import suppress

from actors.errors import RaygroveError
from runtime.driver.runtime import Runtime
from tests.model.history import History

LOOK_S = 0.05
"""Between two looks at where agents live."""

STOPPED_S = (1.0, 8.0)
"""How long a stopped process stays so."""


class Faults:
    """Has faults happen.

    Args:
        rt: a Runtime of the deployment, which is asked where its actors live.
        history: where losses are noted.

    Attributes:
        happened: how often each kind of fault has.
    """

    def __init__(self, rt: Runtime, history: History, chance: random.Random) -> None:
        self._rt = rt
        self._history = history
        self._chance = chance
        self.happened: Counter[str] = Counter()

    async def strike(self, who: str, how: str) -> None:
        """Kill or stop the Runner, the Session actor, or the process of an agent as soon as there is one.

        A Runner or a Session actor that cannot be reached has a fault already.
        """
        pid = 0
        with suppress(RaygroveError, ProcessLookupError):
            while not pid:
                await asyncio.sleep(LOOK_S)
                seen = await self._rt.aio.statistics()
                pids = {name: each.pid for name, each in seen.agents.items()}
                core = {"session": seen.session.pid, "runner": seen.runner.pid}
                pid = core[who] if who in core else self._chance.choice(sorted(pids.values()) or [0])
            # One that lives nowhere may have moved in just before. With a Runner its agents are lost.
            lost = [name for name, each in pids.items() if each in (pid, 0) or who == "runner"]
            self._history.lose(who, lost)
            os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
            self.happened[f"{how} {who}"] += 1
            try:
                await asyncio.sleep(self._chance.uniform(*STOPPED_S) if how == "stop" else 0)
            finally:
                os.kill(pid, signal.SIGCONT)
