"""Stand-ins, in an agent's process, for what lives in another one: definitions of flows, and models with a state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.definitions.flows import FlowPlan
from actors.errors import ActorLostError, FlowNotFoundError
from actors.messages.codec import decode, encode
from actors.messages.model import LlmRequest, LlmResponse
from runtime.cluster.transport.link import Handle, told
from runtime.engine.flow_registry import FlowRegistry


class RemotePlans:
    """Definitions of flows as an agent in another process finds them. Each travels there once.

    Args:
        handle: the Runner's.
        load: makes a definition of its pickled form.
    """

    def __init__(self, handle: Handle, load: Callable[[bytes], Any]) -> None:
        self._handle = handle
        self._load = load
        self._known: FlowRegistry[FlowPlan] = FlowRegistry({})

    async def find(self, name: str) -> Any:
        """A definition. Raises FlowNotFoundError, ActorLostError."""
        known = self._known.get(name)
        if known is None:
            try:
                pickled: bytes | None = await self._handle.plan.remote(name)
            except RayActorError as error:
                raise ActorLostError("the Runner", told(error)) from error
            if pickled is None:
                raise FlowNotFoundError(name)
            known = self._load(pickled)
            self._known.add(name, known)
        return known


class RemoteModel:
    """A model whose living copy is elsewhere.

    Args:
        name: what it is called where models are limited.
    """

    def __init__(self, handle: Handle, name: str) -> None:
        self._handle = handle
        self.name = name

    async def generate(self, request: LlmRequest, *, stream: bool) -> Any:
        """Ask the living copy. Raises what it raises."""
        asked: ray.ObjectRef[list[bytes]] = self._handle.generate.remote(encode(request), stream)
        try:
            replies = await asked
        except asyncio.CancelledError:
            ray.cancel(asked)
            raise
        except RayTaskError as error:
            raise error.cause from None
        for raw in replies:
            yield decode(raw, LlmResponse)
