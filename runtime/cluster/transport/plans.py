"""Definitions of flows that come with turns, on their way to agents.

They are kept in the processes of a Runner and of a Session actor, so that either may be lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from actors.errors import FlowNotFoundError
from actors.layers.flows.definitions import FlowPlan
from runtime.cluster.packing.pickling import unpickle
from runtime.cluster.ray.absence import AbsentActorError, is_away
from runtime.cluster.transport.link import RETRY_S, answered
from runtime.cluster.transport.ray_actors import Handle, get_actor
from runtime.engine.deployment import FlowRegistry


@dataclass(frozen=True)
class PlanPeers:
    """The actors of the other kind, which keep the same flows.

    Attributes:
        namespace, names: where they are.
        restart_timeout_s: how long Ray may take to restart one of them.
    """

    namespace: str
    names: tuple[str, ...]
    restart_timeout_s: float


class KeptPlans(FlowRegistry[bytes]):
    """The pickled flows that one process keeps.

    Args:
        permanent: those of the tree, by name; they come with the process and are never copied.
        peers: where those are that came with turns before this process was started again.
    """

    def __init__(self, permanent: Mapping[str, bytes], peers: PlanPeers) -> None:
        super().__init__(permanent)
        self.peers = peers

    async def fetch(self, name: str) -> bytes | None:
        """A flow that is kept here or by a peer, or None. It waits for peers that are being restarted."""
        if self.get(name) is None and (plan := await asyncio.to_thread(self._find_at_peers, name)) is not None:
            self.add(name, plan)
        return self.get(name)

    def _find_at_peers(self, name: str) -> bytes | None:
        answers = (self._ask(peer, "kept_plan", name) for peer in self.peers.names)
        return next((plan for plan in answers if plan is not None), None)

    def copy_from_peers(self) -> None:
        """Keep again what peers keep. It blocks its thread while a peer is being restarted."""
        for peer in self.peers.names:
            for name in self._ask(peer, "plan_names") or ():
                plan = self._ask(peer, "kept_plan", name) if self.get(name) is None else None
                if plan is not None:
                    self.add(name, plan)

    def _ask(self, peer: str, method: str, *arguments: str) -> Any:
        """Call a method of a peer's host; None when the peer is gone."""
        give_up_s = time.monotonic() + self.peers.restart_timeout_s
        # A deployment that is being stopped has no peers any more.
        with suppress(ValueError, AbsentActorError):
            handle = get_actor(peer, self.peers.namespace)
            while True:
                try:
                    return ray.get(getattr(handle, method).remote(*arguments))
                except AbsentActorError as error:
                    if not is_away(error) or time.monotonic() >= give_up_s:
                        raise
                    time.sleep(RETRY_S)
        return None


async def keep_plan(host: Handle, actor: str, name: str, plan: bytes, restart_timeout_s: float) -> None:
    """Have the host of an actor keep a flow, also when it is just being restarted. Raises ActorLostError."""
    await answered(lambda: host.keep_plan.remote(name, plan), actor, restart_timeout_s)


class RemotePlans:
    """Definitions of flows, fetched from the Runner's process; each is fetched once."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._known: FlowRegistry[FlowPlan] = FlowRegistry({})

    async def find(self, name: str) -> FlowPlan:
        """A definition. Raises FlowNotFoundError, ActorLostError."""
        known: FlowPlan | None = self._known.get(name)
        if known is None:
            pickled: bytes | None = await answered(lambda: self._handle.plan.remote(name), "the Runner", 0)
            if pickled is None:
                raise FlowNotFoundError(name)
            known = unpickle(pickled)
            self._known.add(name, known)
        return known
