"""Whether the apps of a server answer, and take new turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from actors.errors import DeploymentNotFoundError, DrainingError, RaygroveError
from runtime.driver.runtime import Runtime
from runtime.driver.statistics import RuntimeStatistics

READY_S = 2.0
"""How long actors and stores may take to answer."""

AWAY = "the control service of Ray is away"
"""The fault of an app whose turns go on, on a Ray that may be about to end all of its programs."""

DRAINING = "draining"
"""The fault of an app that takes no new turns, because its deployment is about to be stopped."""

FRESH_S = 0.25
"""How long an answer is given again: requests need no credentials, and each would ask every actor."""


class Readiness:
    """Asks the actors and the session store of every app.

    Args:
        runtimes: by the names of their apps.
    """

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = runtimes
        self._lock = asyncio.Lock()
        self._asked_s = float("-inf")
        self._faults: dict[str, str] = {}

    async def faults(self) -> dict[str, str]:
        """The apps that do not answer, and why, as of a moment ago."""
        async with self._lock:
            if time.monotonic() - self._asked_s > FRESH_S:
                found = await asyncio.gather(*(_fault(runtime) for runtime in self._runtimes.values()))
                self._faults = {name: fault for name, fault in zip(self._runtimes, found, strict=True) if fault}
                self._asked_s = time.monotonic()
            return self._faults


async def _fault(runtime: Runtime) -> str:
    try:
        async with asyncio.timeout(READY_S):
            try:
                figures = await _figures(runtime)
            except DeploymentNotFoundError:
                # The first request after a stop tells of it, and the next one joins what has been started since.
                figures = await _figures(runtime)
    except TimeoutError:
        return f"no answer within {READY_S:g} s"
    except DrainingError:
        # It is being upgraded: the next deployment starts just now.
        return DRAINING
    except RaygroveError as error:
        return type(error).__name__
    if figures.control_service_away_s:
        return AWAY
    return DRAINING if figures.runner.counts.get("draining") else ""


async def _figures(runtime: Runtime) -> RuntimeStatistics:
    """Those of the Runner and its agents, once the Session actors and their store have answered, too."""
    figures, _ = await asyncio.gather(runtime.aio.statistics(), runtime.aio.turns.list(limit=1))
    return figures
