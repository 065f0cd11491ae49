"""The Ray actor that is the process of a Session actor or a Runner, or stands by for it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count

import ray
from ray.exceptions import RayError

from actors.actor import Actor
from actors.errors import ClusterError
from actors.interfaces.telemetry import tell_event
from actors.layers.updates.messages import UseVersions
from actors.layers.updates.versions import VersionRecord
from actors.messages.codec import encode
from actors.rules.backoff import Backoff
from runtime.cluster.core.standby import Standby, StandbyPlan, term_now
from runtime.cluster.host import RayActorHost
from runtime.cluster.rules.leaving import Whereabouts
from runtime.cluster.transport.link import StandsByError
from runtime.cluster.transport.pair import Standing
from runtime.cluster.transport.plans import KeptPlans
from runtime.cluster.transport.ray_actors import Handle, current_actor, get_actor, is_restarted, this_node
from runtime.cluster.transport.wires import WATCHED, WireOptions
from runtime.observability.logs.sinks import LogOptions
from runtime.transport.io.server_connection import Handler

RECOVERY = Backoff(0.1, 1.0)
"""Times between two attempts of a restarted process to do what it has to do first."""

TURNS_FIRST_S = 1.0
"""How long a process that takes the place of a lost one does nothing else than to have turns go on: what else it does takes it,
and others, time that they wait for."""

LAST_S = 1.0
"""How long a process may take to keep the events of one that leaves its node, before another one is asked."""


class CoreHost(RayActorHost):
    """The process of a Session actor or a Runner. With a standby it is one of two processes, of which one leads and is the actor.

    It also keeps the definitions of flows.

    Args:
        plans: the definitions that it has from the beginning, and where it finds others when it is started again.
        wires, logs, role: see RayActorHost.
        plan: who the other process is; None: the actor has no standby.
    """

    _bound_to = ""
    """What may be on its node only, so that the process stays there."""

    def __init__(
        self,
        build: Callable[[], Actor],
        plans: KeptPlans,
        wires: WireOptions,
        logs: LogOptions | None,
        role: str,
        plan: StandbyPlan | None,
        namespace: str,
    ) -> None:
        self._plan = plan
        self._is_leading = asyncio.Event()
        self._standing_by: asyncio.Task[None] | None = None
        self._standby: Standby | None = None
        self._has_retired = False
        self._has_left = False
        self._is_ready = False
        self._stands_by_first = plan is not None and (is_restarted() or not plan.is_first)
        self._term = 0
        if not self._stands_by_first:
            self._term = term_now() if plan is not None else 0
            self._is_leading.set()
        super().__init__(build, wires, logs, role)
        self.plans = plans
        if self._stands_by_first:
            threading.Thread(target=_begin_to_stand_by, args=(current_actor(namespace),), daemon=True).start()

    def _handler(self) -> Handler:
        receive, leads = self._actor.receive, self._is_leading
        return lambda raw, slot: receive(raw) if slot != WATCHED and leads.is_set() else self._unled(raw, slot)

    async def receive(self, raw: bytes, slot: int = 0) -> bytes:
        """Hand a message to the actor and return its reply. Raises StandsByError when this process does not lead."""
        if not self._is_leading.is_set():
            raise StandsByError("it stands by")
        return await self._handle(raw, slot)

    async def _unled(self, raw: bytes, slot: int) -> bytes:
        """Handle what no process takes that leads: the message without a reply, and those that come to one that stands by."""
        if slot == WATCHED:
            await asyncio.Event().wait()
        await self._is_leading.wait()
        return await self._actor.receive(raw)

    def tell_replaced(self) -> None:
        """Tell that this process has taken the place of one that was lost."""
        tell_event("actor replaced", "the process of %s was lost, and this one was started in its place", self._name)

    async def keep_plan(self, name: str, plan: bytes) -> None:
        """Keep the pickled definition of a flow."""
        self.plans.add(name, plan)

    async def kept_plan(self, name: str) -> bytes | None:
        """The pickled definition of a flow that is kept here, or None."""
        return self.plans.get(name)

    async def plan_names(self) -> list[str]:
        """The definitions that came with turns."""
        return self.plans.added()

    async def standing(self, is_for_other: bool = False) -> Standing:
        """Whether this process leads.

        Args:
            is_for_other: the other process of this actor asks, which leads by itself if this one does not.
        """
        endpoint = await self.endpoint()
        if is_for_other and self._standby is not None:
            self._standby.give_way()
        return Standing(self._is_leading.is_set(), self._term, endpoint, this_node())

    async def whereabouts(self) -> Whereabouts:
        """Where this process is, and whether others have to wait for it, or it for them."""
        return Whereabouts(this_node(), self._is_leading.is_set(), self._is_ready, self._bound_to)

    async def leave(self, node: str) -> None:
        """Hand on the events that are kept here, and end this process, if it is on a node that is about to end."""
        if self._has_retired or self._has_left or node != this_node():
            return
        self._has_left = True
        await self._hand_on_events()
        await super().leave(node)

    async def _hand_on_events(self) -> None:
        if self._logs is not None:
            await asyncio.to_thread(self._logs.hand_on)
        peers = self.plans.peers
        for name in peers.names:
            # One that is being started does not answer.
            with suppress(RayError, ValueError, TimeoutError):
                async with asyncio.timeout(LAST_S):
                    keeper = await asyncio.to_thread(get_actor, name, peers.namespace)
                    await keeper.keep_events.remote(self._hub.events())
                    return

    async def watch(self) -> None:
        """Reply nothing as long as this process lives."""
        await asyncio.Event().wait()

    async def note_standby(self, pids: Sequence[int]) -> None:
        """Know the processes that stand by for this one."""
        self._actor.standby_pids = pids

    async def stand_by(self) -> None:
        """Begin to stand by."""
        if self._standing_by is None and not self._has_retired:
            self._standing_by = asyncio.create_task(self._stand_by())

    async def retire(self) -> list[int]:
        """Take the place of no lost process any more, since the deployment ends. Returns the ids of what stands by here."""
        self._has_retired = True
        if self._standing_by is not None:
            self._standing_by.cancel()
        return [] if self._is_leading.is_set() else [os.getpid()]

    async def _stand_by(self) -> None:
        """Wait for the loss of the process that leads, and take its place."""
        assert self._plan is not None
        with suppress(ClusterError):
            # Senders would wait for it. They hear why it cannot.
            await self.endpoint()
        self._standby = Standby(self._plan, self._wires, self._prepared)
        self._term = await self._standby.until_it_leads()
        self._standby = None
        tell_event("actor replaced", "the process of %s was lost, and its standby has taken its place", self._name)
        await self._take_place()

    async def _use_versions(self, newest: Awaitable[VersionRecord]) -> None:
        """Go by the newest record of versions: the process has read one when it was started, and was told of none since.

        Raises what the reading of the record raises.
        """
        await self._actor.receive(encode(UseVersions(record=await newest)))

    async def _prepared(self) -> list[int]:
        pids = await self._prepare()
        self._is_ready = True
        return pids

    async def _prepare(self) -> list[int]:
        """Make ready what the place of the process that leads needs. Returns the ids of the processes that stand by."""
        raise NotImplementedError

    async def _take_place(self) -> None:
        """Take the place of the lost process: lead, and do what follows."""
        raise NotImplementedError


def _begin_to_stand_by(actor: Handle) -> None:
    # Sent until there is a reply: a message that an actor sends to itself while it starts may get lost.
    asked: list[ray.ObjectRef[None]] = []
    for attempt in count(1):
        asked.append(actor.stand_by.remote())
        replies, asked = ray.wait(asked, timeout=RECOVERY.after_attempts(attempt))
        if replies:
            return
