"""Has the processes of Session actors and Runners leave nodes that are about to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from ray.exceptions import RayError

from actors.interfaces.telemetry import tell_event
from actors.messages.event import now_s
from runtime.cluster.cluster_watch import ClusterWatch, Nodes
from runtime.cluster.processes.placing import core_needs, free_nodes
from runtime.cluster.rules.leaving import CoreProcess, Whereabouts, leaving
from runtime.cluster.rules.nodes import Node, refusal
from runtime.cluster.transport.ray_actors import get_actor
from runtime.settings import Settings

logger = logging.getLogger(__name__)


EVERY_S = 0.5
"""How often the processes are asked where they are while a node is about to end."""

ANSWER_S = 2.0
"""How long one may take to say so. A process that is being started does not answer."""


class Departures:
    """Observes in the process of the first Runner, and in no other, where all of them are: they leave one after the other."""

    def __init__(self, processes: Sequence[CoreProcess], settings: Settings, nodes: ClusterWatch) -> None:
        self._processes = processes
        self._namespace = settings.namespace
        self._needs = core_needs(settings)
        self._nodes = nodes
        self._begun = False
        self._seeing_off: asyncio.Task[None] | None = None
        self._told: set[str] = set()

    def begin(self) -> None:
        """Observe the nodes from now on."""
        if not self._begun:
            self._begun = True
            self._nodes.subscribe(self._look)
            self._look(self._nodes.now)

    def _look(self, nodes: Nodes) -> None:
        if any(node.drain for node in nodes) and (self._seeing_off is None or self._seeing_off.done()):
            self._seeing_off = asyncio.create_task(self._see_off())

    async def _see_off(self) -> None:
        """Have all leave that can, until none is left on a node that is about to end."""
        while ending := {node.id: node for node in self._nodes.now if node.drain is not None}:
            processes = await asyncio.gather(*map(self._found, self._processes))
            there = [each for each in processes if each.node in ending]
            if not there and all(each.node for each in processes):
                break
            try:
                free = await asyncio.to_thread(free_nodes)
            except Exception:
                # Ray's control service is away, which may raise many classes.
                logger.debug("whether other nodes have room cannot be looked up", exc_info=True)
                free = []
            refused = refusal(self._needs, free)
            self._tell(ending, there, refused)
            ends_s = {node.id: node.drain.deadline_s for node in ending.values() if node.drain is not None}
            now = leaving(processes, ends_s, has_room=refused is None, now_s=now_s())
            for each in there:
                if each.name in now:
                    self._once(f"{each.name} leaves node {ending[each.node].address}, which drains")
                    handle = await asyncio.to_thread(get_actor, each.name, self._namespace)
                    handle.leave.remote(each.node)
            await asyncio.sleep(EVERY_S)

    async def _found(self, process: CoreProcess) -> CoreProcess:
        """Ask a process where it is."""
        try:
            async with asyncio.timeout(ANSWER_S):
                handle = await asyncio.to_thread(get_actor, process.name, self._namespace)
                found: Whereabouts = await handle.whereabouts.remote()
                return process._replace(**found._asdict())
        except (RayError, TimeoutError, ValueError):
            return process

    def _tell(self, ending: dict[str, Node], there: Sequence[CoreProcess], refused: str | None) -> None:
        for node in ending.values():
            names = [each.name for each in there if each.node == node.id]
            if names and node.drain is not None:
                ends = node.drain.deadline_s
                when = f" and ends at {datetime.fromtimestamp(ends, UTC):%H:%M:%S} UTC" if ends is not None else ""
                self._once(f"node {node.address} drains{when}", f"; on it: {', '.join(names)}")
        for each in there:
            where = f"{each.name} stays on node {ending[each.node].address}, which drains"
            if each.bound_to:
                self._once(where, f": {each.bound_to} may be a file there")
            elif refused is not None:
                self._once(where, f" until another node has room: it asks for {self._needs}, {refused}")

    def _once(self, text: str, rest: str = "") -> None:
        if text not in self._told:
            self._told.add(text)
            tell_event("node drains", "%s%s", text, rest)
