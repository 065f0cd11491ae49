"""How a process that stands by learns that it has to lead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ray.exceptions import RayError

from actors.messages.event import now_s
from actors.rules.backoff import Backoff
from runtime.cluster.ray.absence import AbsentActorError
from runtime.cluster.rules.standby import SILENT_S, Other, StandbyStep, next_step, next_term
from runtime.cluster.transport.link import first_answer
from runtime.cluster.transport.pair import Standing
from runtime.cluster.transport.ray_actors import Handle, get_actor
from runtime.cluster.transport.wires import Wires

logger = logging.getLogger(__name__)


PAUSES = Backoff(0.02, 0.5)
"""Times between two questions to a process that does not lead yet."""

FAILED_S = 1.0
"""When Ray is asked again after it has failed itself."""


@dataclass(frozen=True)
class StandbyPlan:
    """Who the other process of an actor is.

    Attributes:
        other: the name of its Ray actor.
        is_first: this process is the first of the two, which leads at the start.
    """

    other: str
    namespace: str
    is_first: bool


def term_now(seen: int = 0, *, is_first: bool = True) -> int:
    """The term of a process that takes the place now. `seen`: of the one before."""
    return next_term(seen, int(now_s() * 1_000), is_first=is_first)


class Standby:
    """Waits for the loss of the process that leads.

    Args:
        prepare: called each time when it has found that the other process leads: makes ready what it would need in its place, and
            returns the ids of the processes that stand by.
    """

    def __init__(self, plan: StandbyPlan, wires: Wires, prepare: Callable[[], Awaitable[Sequence[int]]]) -> None:
        self._plan = plan
        self._wires = wires
        self._prepare = prepare
        self._handle: Handle | None = None
        self._seen = 0
        self._has_given_way = False

    def give_way(self) -> None:
        """The other process has been told that this one stands by. It may lead from now on."""
        self._has_given_way = True

    async def until_it_leads(self) -> int:
        """Wait until this process has to lead. Returns its term."""
        failed = 0
        while True:
            try:
                other, standing = await self._ask()
                while (step := self._step(other)) is StandbyStep.WATCH and standing is not None:
                    failed, self._seen = 0, standing.term
                    other, standing = await self._watched(standing)
            except RayError:
                logger.warning("Ray does not say whether the process that leads lives; it is asked again", exc_info=True)
                await asyncio.sleep(FAILED_S)
                continue
            if step is StandbyStep.LEAD:
                return term_now(self._seen, is_first=self._plan.is_first)
            failed += 1
            await asyncio.sleep(PAUSES.after_attempts(failed))

    def _step(self, other: Other) -> StandbyStep:
        has_given_way, self._has_given_way = self._has_given_way, False
        return next_step(other, is_first=self._plan.is_first, has_seen_leader=self._seen > 0, has_given_way=has_given_way)

    async def _ask(self) -> tuple[Other, Standing | None]:
        """Ask the other process whether it leads, again and again until one question has an answer."""
        if self._handle is None:
            try:
                self._handle = await asyncio.to_thread(get_actor, self._plan.other, self._plan.namespace)
            except ValueError:
                return Other.ABSENT, None
        handle = self._handle
        try:
            async with asyncio.timeout(SILENT_S):
                standing = await first_answer(lambda: _standing(handle))
        except TimeoutError:
            return Other.SILENT, None
        except AbsentActorError:
            return Other.LOST, None
        return (Other.LEADS if standing.leads else Other.STANDS_BY), standing

    async def _watched(self, standing: Standing) -> tuple[Other, Standing | None]:
        """Be prepared, and wait for the loss of the process that leads. Returns what is known then."""
        preparing = asyncio.create_task(self._tell_prepared())
        try:
            return await self._watch(standing)
        finally:
            preparing.cancel()

    async def _tell_prepared(self) -> None:
        pids = list(await self._prepare())
        assert self._handle is not None
        with suppress(RayError):
            await self._handle.note_standby.remote(pids)

    async def _watch(self, standing: Standing) -> tuple[Other, Standing | None]:
        if standing.endpoint is not None:
            if await self._wires.watch(standing.endpoint):
                return Other.LOST, None
        elif self._handle is not None:
            try:
                await self._handle.watch.remote()
            except AbsentActorError:
                return Other.LOST, None
        return await self._ask()


async def _standing(handle: Handle) -> Standing:
    standing: Standing = await handle.standing.remote(True)
    return standing
