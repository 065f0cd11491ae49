"""A Session actor or a Runner with a standby: which of its two processes leads, and messages to that one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ray.exceptions import RayError

from actors.rules.backoff import Backoff
from runtime.cluster.transport.link import ProcessReplacedError
from runtime.cluster.transport.peer import Peer
from runtime.cluster.transport.ray_actors import Handle, get_actor
from runtime.transport.endpoint import Endpoint
from runtime.transport.io.channel import Channels

PAUSES = Backoff(0.005, 0.25)
"""When a process that stands by is asked again whether it leads. It does within milliseconds after the other one was lost."""


@dataclass(frozen=True)
class Standing:
    """What one of the two processes says of itself.

    Attributes:
        leads: it is the actor; else it stands by.
        term: of the one that leads; 0 where it stands by.
        endpoint: where it listens; None where messages come over Ray.
    """

    leads: bool
    term: int
    endpoint: Endpoint | None
    node: str = ""


class Pair:
    """The two processes of an actor.

    Args:
        first: the first one.
        other: the name of the second, which may not be there yet.
    """

    def __init__(self, first: Handle, other: str, namespace: str) -> None:
        self.first = first
        self._other_name = other
        self._namespace = namespace
        self._other: Handle | None = None

    async def leader(self) -> tuple[Handle, Endpoint | None]:
        """The process that leads, and where it listens. It waits for one while one is about to lead.

        Raises:
            RayError: as Ray says of the first one, when neither answers.
        """
        failed: dict[bool, Exception] = {}
        asked = [asyncio.create_task(self._when_it_leads(is_first, failed)) for is_first in (True, False)]
        try:
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                if each.exception() is None:
                    return each.result()
            raise failed[True]
        finally:
            for each in asked:
                each.cancel()

    async def _when_it_leads(self, is_first: bool, failed: dict[bool, Exception]) -> tuple[Handle, Endpoint | None]:
        """Ask one process until it leads. One that cannot be asked may lead later, so it is given up only with the other one.

        Args:
            failed: why the first, and why the second, could not be asked the last time.
        """
        asked = 0
        while True:
            asked += 1
            try:
                handle = self.first if is_first else await self._second()
                standing: Standing = await handle.standing.remote()
            except (RayError, ValueError) as error:
                failed[is_first] = error
                if len(failed) == 2:
                    raise
            else:
                failed.pop(is_first, None)
                if standing.leads:
                    return handle, standing.endpoint
            await asyncio.sleep(PAUSES.after_attempts(asked))

    async def _second(self) -> Handle:
        if self._other is None:
            self._other = await asyncio.to_thread(get_actor, self._other_name, self._namespace)
        return self._other


class PairPeer(Peer):
    """The process that leads of two: see Peer."""

    def __init__(self, pair: Pair, name: str, connections: Channels | None) -> None:
        super().__init__(pair.first, name, connections)
        self._pair = pair
        self._is_found = False

    async def _answer(self) -> Endpoint | None:
        self._handle, endpoint = await self._pair.leader()
        self._is_found = True
        return endpoint

    async def _by_ray(self, raw: bytes, slot: int) -> bytes:
        if not self._is_found:
            await self._answer()
        try:
            return await super()._by_ray(raw, slot)
        except (RayError, ProcessReplacedError):
            # The next attempt goes to the one that leads then.
            self._is_found = False
            raise


def pairs_of(actors: Sequence[Handle], standbys: Sequence[str], namespace: str) -> list[Pair]:
    """Actors with their standbys; none where they have no standby.

    Args:
        standbys: the names of the standbys, which may not be there yet; none: the actors have no standby.
    """
    if not standbys:
        return []
    return [Pair(actor, name, namespace) for actor, name in zip(actors, standbys, strict=True)]
