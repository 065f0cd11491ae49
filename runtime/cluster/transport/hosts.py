"""Ray actor classes: each holds one of our actors, or a model, in a process of its own."""

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
from runtime.cluster.packing.chunks import unpacked
from runtime.cluster.transport.link import Handle
from runtime.cluster.transport.ray_actors import myself
from runtime.engine.flow_registry import FlowRegistry


class RayActorHost:
    """A Ray actor: a process with one of our actors in it."""

    def __init__(self, build: Callable[[], Actor]) -> None:
        self._actor = build()

    async def receive(self, raw: bytes) -> bytes:
        """Hand a message to the actor and return its reply."""
        return await self._actor.receive(raw)


class SessionHost(RayActorHost):
    """The process of the Session actor.

    Args:
        pieces: a parcel with what makes the actor, and with what a driver that joins the deployment has to know.
    """

    def __init__(self, *pieces: bytes) -> None:
        build, self._terms = unpacked(pieces)
        super().__init__(build)

    async def terms(self) -> Any:
        """What a driver has to know that joins the deployment."""
        return self._terms


class RunnerHost(RayActorHost):
    """The process of the Runner, where agents find the definitions of flows as well.

    When Ray has started it again, the Runner looks for the turns that it had.

    Args:
        namespace: its own.
        pieces: a parcel with what makes the actor, and with pickled definitions of the flows of the tree, by name.
    """

    def __init__(self, namespace: str, *pieces: bytes) -> None:
        build, plans = unpacked(pieces)
        actor, self._fill = build()
        super().__init__(lambda: actor)
        self._plans: FlowRegistry[bytes] = FlowRegistry(plans)
        with warnings.catch_warnings():
            # Ray's own: it looks by a method that it has deprecated itself.
            warnings.simplefilter("ignore", DeprecationWarning)
            is_restarted = ray.get_runtime_context().was_current_actor_reconstructed
        if is_restarted:
            threading.Thread(target=_tell, args=(myself(namespace), encode(RecoverTurns())), daemon=True).start()

    async def fill(self) -> None:
        """Begin to have processes stand ready for agents."""
        self._fill()

    async def define(self, name: str, plan: bytes) -> None:
        """Keep a pickled definition."""
        self._plans.add(name, plan)

    async def plan(self, name: str) -> bytes | None:
        """A pickled definition, or None."""
        return self._plans.get(name)


def _tell(actor: Handle, raw: bytes) -> None:
    """Send a Runner a message until it has heard it. One that an actor sends to itself while it is being started may get lost."""
    heard: list[Any] = []
    while not heard:
        heard, _ = ray.wait([actor.receive.remote(raw)], timeout=1.0)
    actor.fill.remote()


class LimiterHost(RayActorHost):
    """The process of the actor that limits models.

    Args:
        pieces: a parcel with what makes the actor.
    """

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(unpacked(pieces))


class ModelHost:
    """The process of the one living copy of a model that has a state of its own.

    Args:
        pieces: a parcel with the model.
    """

    def __init__(self, *pieces: bytes) -> None:
        self._model: SharedModel = unpacked(pieces)

    async def generate(self, request: bytes, stream: bool) -> list[bytes]:
        """Ask the model; its responses, encoded."""
        responses = self._model.generate(decode(request, LlmRequest), stream=stream)
        return [encode(response) async for response in responses]

    async def state(self) -> bytes:
        """What the model has become."""
        return self._model.state()
