"""Gives agents replicas by the runs that they have under way: starts further ones, and says which one serves a session.

Those that are needed no more get no sessions, and so end as all agents do that are idle. Where processes claim resources, the
runs of all agents that share processes have further ones started as well: these are what has an autoscaler add nodes.
"""

from __future__ import annotations

import asyncio
import logging
import time

from actors.errors import RaygroveError
from actors.layers.trees.process_groups import SCALED, ProcessGroup, Replica, replica_among
from actors.messages.session import SessionKey
from runtime.cluster.processes.activation import Activation
from runtime.cluster.processes.process_table import ProcessTable
from runtime.cluster.processes.starting import SpareProcesses
from runtime.cluster.rules.process_choice import Scale, ScaleLimits, scaled, serving

logger = logging.getLogger(__name__)


LOOK_S = 0.1
"""Runs under way are counted no more often than this."""

LOOK_AT_ALL_S = 1.0
"""The runs of all agents are counted no more often than this."""

MOST_PROCESSES = 1_000
"""Processes that may be wanted of an autoscaler, whose own bounds are lower."""

RETRY_S = 2.0
"""Time after a further replica could not be started, until that is tried again."""


class ScaledReplicas:
    """The replicas of all agents whose number of them goes by load.

    Attributes:
        starting: tasks that start further replicas.
    """

    def __init__(self, table: ProcessTable, activation: Activation, spares: SpareProcesses) -> None:
        self._table = table
        self._activation = activation
        self._spares = spares
        self._all_limits = ScaleLimits(0, MOST_PROCESSES, SCALED.runs_per_replica, table.limits.idle_timeout_s)
        self._all = Scale(0, 0.0)
        self._all_look_s = 0.0
        self._agents: dict[tuple[str, str], _Scaled] = {}
        self.starting: set[asyncio.Task[None]] = set()

    def serving(self, agent: str, group: ProcessGroup, key: SessionKey, mark: str) -> Replica:
        """The replica of an agent that serves a session now.

        Args:
            mark: see Replica.
        """
        led = self._agents.get((group.leader, mark))
        if led is None:
            led = self._agents[group.leader, mark] = _Scaled(group, mark, self._table.limits.idle_timeout_s)
        now_s = time.monotonic()
        if now_s >= led.look_s:
            self._look(led, now_s)
        return Replica(agent, replica_among(key, led.serving), mark)

    def _look(self, led: _Scaled, now_s: float) -> None:
        led.look_s = now_s + LOOK_S
        if self._table.limits.claims and now_s >= self._all_look_s:
            self._look_at_all(now_s)
        runs = self._table.runs_by_replica(led.group.leader, led.mark, led.limits.most)
        # Our own tasks wait as well.
        waiting = self._table.waiting(led.group.leader, led.mark) - len(led.starting)
        led.scale = scaled(led.scale, led.limits, runs=sum(runs.values()) + waiting, now_s=now_s)
        led.serving = serving(led.scale, led.limits, runs)
        for number in range(led.limits.least, led.scale.replicas):
            if number not in runs and number not in led.starting and now_s >= led.retry_s:
                led.starting.add(number)
                task = asyncio.create_task(self._start(led, number))
                self.starting.add(task)
                task.add_done_callback(self.starting.discard)

    def _look_at_all(self, now_s: float) -> None:
        self._all_look_s = now_s + LOOK_AT_ALL_S
        self._all = scaled(self._all, self._all_limits, runs=self._table.runs(SCALED.runs_per_replica), now_s=now_s)
        self._spares.start_further(max(0, self._all.replicas - len(self._table.in_use())))

    async def _start(self, led: _Scaled, number: int) -> None:
        replica = Replica(led.group.leader, number, led.mark)
        try:
            await self._activation.link(replica, led.group)
        except RaygroveError as error:
            # Sessions go to those that live meanwhile.
            logger.debug("replica %s could not be started: %s", replica, error)
            led.retry_s = time.monotonic() + RETRY_S
        finally:
            led.starting.discard(number)
            led.look_s = 0.0


class _Scaled:
    """What is known of the replicas of one agent, and of those that share its processes."""

    def __init__(self, group: ProcessGroup, mark: str, idle_timeout_s: float) -> None:
        placement = group.placement
        self.group = group
        self.mark = mark
        self.limits = ScaleLimits(placement.replicas, placement.most_replicas, placement.runs_per_replica, idle_timeout_s)
        self.scale = Scale(placement.replicas, 0.0)
        self.serving: tuple[int, ...] = tuple(range(placement.replicas))
        self.starting: set[int] = set()
        self.look_s = 0.0
        self.retry_s = 0.0
