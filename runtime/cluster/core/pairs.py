"""The Session actors and Runners of a deployment with their standbys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from runtime.cluster.handle import Handle
from runtime.cluster.transport.pair import Pair
from runtime.cluster.transport.ray_actors import listed


def pairs_of(actors: Sequence[Handle], standbys: Sequence[str], namespace: str) -> list[Pair]:
    """Actors with their standbys; none where they have no standby.

    Args:
        standbys: the names of the standbys, which may not be there yet; none: the actors have no standby.
    """
    if not standbys:
        return []
    return [Pair(actor, name, namespace) for actor, name in zip(actors, standbys, strict=True)]


async def retire(hosts: Sequence[Handle], timeout_s: float) -> list[int]:
    """Have processes that stand by take no place any more. A process that does not answer is left out.

    Args:
        hosts: the processes of Session actors and Runners, those of standbys included.

    Returns:
        The ids of the processes that stood by.
    """
    answers: list[Sequence[int]] = await asyncio.gather(*(listed(host.retire.remote, timeout_s) for host in hosts))
    return [pid for pids in answers for pid in pids]
