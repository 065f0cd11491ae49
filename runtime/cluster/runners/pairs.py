"""The Runners of a deployment with their standbys, for the programs that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ray.exceptions import RayError

from runtime.cluster.handle import Handle
from runtime.cluster.transport.pair import Pair
from runtime.settings import Settings


def pairs_of(runners: Sequence[Handle], standbys: Sequence[str], settings: Settings) -> list[Pair]:
    """The Runners with their standbys; none where they have no standby.

    Args:
        standbys: the names of the standbys, which may not be there yet.
        settings: the deployment's.
    """
    if not settings.standby_runners:
        return []
    return [Pair(runner, name, settings.namespace) for runner, name in zip(runners, standbys, strict=True)]


async def retire(hosts: Sequence[Handle], timeout_s: float) -> list[int]:
    """Have processes that stand by become no Runner any more. A process that does not answer is left out.

    Args:
        hosts: the processes of Runners, those of standbys included.

    Returns:
        The ids of the processes that stood by.
    """
    answers = await asyncio.gather(*(_retired(host, timeout_s) for host in hosts))
    return [pid for pids in answers for pid in pids]


async def _retired(host: Handle, timeout_s: float) -> Sequence[int]:
    try:
        async with asyncio.timeout(timeout_s):
            pids: Sequence[int] = await host.retire.remote()
            return pids
    except (RayError, TimeoutError):
        return ()
