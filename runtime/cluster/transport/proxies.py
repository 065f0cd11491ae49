"""Proxies, in an agent's process, of what lives in another one: definitions of flows, MCP servers, and models with a state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import ray
from ray.exceptions import RayTaskError

from actors.errors import ActorLostError, ClusterError, FlowNotFoundError, RaygroveError
from actors.layers.flows.definitions import FlowPlan
from actors.layers.mcp.messages import McpServer
from actors.messages.codec import encode
from actors.messages.llm.model import LlmRequest, LlmResponse
from actors.messages.typed import decode
from actors.refs.base import Ref
from runtime.cluster.handle import Handle
from runtime.cluster.transport.link import answered
from runtime.cluster.transport.ray_actors import get_actor
from runtime.cluster.transport.wires import Wires
from runtime.engine.flow_registry import FlowRegistry
from runtime.settings import Settings


class RemotePlans:
    """Definitions of flows, fetched from the Runner's process; each is fetched once.

    Args:
        load: unpickles a definition.
    """

    def __init__(self, handle: Handle, load: Callable[[bytes], FlowPlan]) -> None:
        self._handle = handle
        self._load = load
        self._known: FlowRegistry[FlowPlan] = FlowRegistry({})

    async def find(self, name: str) -> FlowPlan:
        """A definition. Raises FlowNotFoundError, ActorLostError."""
        known: FlowPlan | None = self._known.get(name)
        if known is None:
            pickled: bytes | None = await answered(lambda: self._handle.plan.remote(name), "the Runner", 0)
            if pickled is None:
                raise FlowNotFoundError(name)
            known = self._load(pickled)
            self._known.add(name, known)
        return known


class FoundMcpServers:
    """In an agent's process: finds the actors of MCP servers, by the Runner.

    Args:
        runner: has them started.
    """

    def __init__(self, runner: Handle, wires: Wires, settings: Settings) -> None:
        self._runner = runner
        self._wires = wires
        self._settings = settings

    async def find(self, server: McpServer) -> Ref:
        """A client of a server's actor. Raises DefinitionError, ClusterError, ActorLostError."""
        try:
            name: str = await answered(lambda: self._runner.mcp_server.remote(encode(server)), "the Runner", 0)
            handle = await asyncio.to_thread(get_actor, name, self._settings.namespace)
        except RayTaskError as error:
            if isinstance(error.cause, RaygroveError):
                raise error.cause from None
            raise ClusterError(f"MCP server {server.name!r} could not be started: {error.cause or error}") from error
        except ValueError as error:
            raise ActorLostError(f"MCP server {server.name!r}", str(error)) from error
        return Ref(self._wires.link(handle, f"the actor of MCP server {server.name!r}", self._settings.restart_timeout_s))


class RemoteModel:
    """A model whose only instance lives in a ModelHost.

    Args:
        slot: the model's number in the host.
        name: the name by which calls of the model are limited.
    """

    def __init__(self, handle: Handle, slot: int, name: str) -> None:
        self._handle = handle
        self._slot = slot
        self.name = name

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Ask the model. Its responses arrive all at once. Raises what the model raises."""
        asked: ray.ObjectRef[list[bytes]] = self._handle.generate.remote(self._slot, encode(request), stream)
        try:
            replies = await asked
        except asyncio.CancelledError:
            ray.cancel(asked)
            raise
        except RayTaskError as error:
            raise error.cause from None
        for raw in replies:
            yield decode(raw, LlmResponse)
