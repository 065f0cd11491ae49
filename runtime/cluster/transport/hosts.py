"""Ray actor classes: each holds one actor of this project, or a model, in a process of its own."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import ray

from actors.actor import Actor
from actors.interfaces.model import SharedModel
from actors.messages.codec import decode, encode
from actors.messages.model import LlmRequest
from actors.messages.protocol.turns import RecoverTurns
from runtime.cluster.packing.chunks import from_chunks
from runtime.cluster.transport.link import Handle
from runtime.cluster.transport.ray_actors import current_actor
from runtime.engine.flow_registry import FlowRegistry


class RayActorHost:
    """A Ray actor: a process with one actor of this project in it.

    Args:
        build: builds the actor.
    """

    def __init__(self, build: Callable[[], Actor]) -> None:
        self._actor = build()

    async def receive(self, raw: bytes) -> bytes:
        """Hand a message to the actor and return its reply."""
        return await self._actor.receive(raw)


class SessionHost(RayActorHost):
    """The process of a Session actor.

    Args:
        chunks: of what builds the actor, and of the DeploymentInfo for drivers that join.
    """

    def __init__(self, *chunks: bytes) -> None:
        build, self._deployment_info = from_chunks(chunks)
        super().__init__(build)

    async def deployment_info(self) -> Any:
        """The DeploymentInfo for a driver that joins."""
        return self._deployment_info


class RunnerHost(RayActorHost):
    """The process of a Runner. It also keeps the definitions of flows, which agents fetch here.

    When Ray has restarted it, it tells its Runner to recover the turns that were running.

    Args:
        namespace: its own.
        chunks: of what builds the actor, and of the pickled definitions of the tree's flows, by name.
    """

    def __init__(self, namespace: str, *chunks: bytes) -> None:
        build, plans = from_chunks(chunks)
        actor, self._start_spares = build()
        super().__init__(lambda: actor)
        self._plans: FlowRegistry[bytes] = FlowRegistry(plans)
        with warnings.catch_warnings():
            # Ray itself calls a method here that it has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            is_restarted = ray.get_runtime_context().was_current_actor_reconstructed
        if is_restarted:
            threading.Thread(target=_recover, args=(current_actor(namespace), encode(RecoverTurns())), daemon=True).start()

    async def start_spares(self) -> None:
        """Begin to start spare processes for agents."""
        self._start_spares()

    async def keep_plan(self, name: str, plan: bytes) -> None:
        """Keep the pickled definition of a flow."""
        self._plans.add(name, plan)

    async def plan(self, name: str) -> bytes | None:
        """The pickled definition of a flow, or None."""
        pickled: bytes | None = self._plans.get(name)
        return pickled


def _recover(actor: Handle, raw: bytes) -> None:
    """Send a Runner a message until it replies: one that an actor sends to itself while it starts may get lost."""
    replies: list[object] = []
    while not replies:
        replies, _ = ray.wait([actor.receive.remote(raw)], timeout=1.0)
    actor.start_spares.remote()


class LimiterHost(RayActorHost):
    """The process of the actor that limits models.

    Args:
        chunks: of what builds the actor.
    """

    def __init__(self, *chunks: bytes) -> None:
        super().__init__(from_chunks(chunks))


class ModelHost:
    """Holds the only instance of a stateful model (e.g. `ScriptedModel`) for the whole deployment.

    Args:
        chunks: of the model.
    """

    def __init__(self, *chunks: bytes) -> None:
        self._model: SharedModel = from_chunks(chunks)

    async def generate(self, request: bytes, stream: bool) -> list[bytes]:
        """Ask the model. Returns its encoded LlmResponses."""
        responses = self._model.generate(decode(request, LlmRequest), stream=stream)
        return [encode(response) async for response in responses]

    async def state(self) -> bytes:
        """The state of the model now."""
        return self._model.state()
