"""Ray actor classes: each holds one actor of this project, or a model, in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from actors.actor import Actor
from actors.errors.tracebacks import keep_traceback
from actors.interfaces.deployment_events import tell_event
from actors.interfaces.model import Model, Responses
from actors.messages.codec import encode
from actors.messages.llm.model import LlmRequest
from actors.messages.typed import decode
from runtime.cluster.handle import Handle
from runtime.cluster.logs.hub import LogHub, LogPage
from runtime.cluster.logs.process import ProcessLogs, ToRunner
from runtime.cluster.packing.chunks import from_chunks
from runtime.cluster.rules.leaving import Whereabouts
from runtime.cluster.transport.plans import KeptPlans
from runtime.cluster.transport.ray_actors import this_node
from runtime.cluster.transport.wires import Listener, WireOptions, Wires
from runtime.engine.process.collector import look_less_often
from runtime.observability.logs.events import DeploymentEvent
from runtime.observability.logs.options import LogOptions
from runtime.transport.endpoint import Endpoint
from runtime.transport.io.server_connection import Handler
from runtime.transport.options import DirectOptions


class SharedModel(Model, Protocol):
    """A model with a state that all agents share, in whatever process they run.

    An engine that copies definitions to other processes keeps one live copy of the model, sends every request to it, and copies
    its state back to the original object with `adopt`.
    """

    def state(self) -> bytes:
        """The state of the live copy."""
        ...

    def adopt(self, state: bytes) -> None:
        """Take over the state of the live copy."""
        ...


class RayActorHost:
    """A Ray actor: a process with one actor of this project in it, and with a hub of logs.

    Args:
        logs: what the process logs; None: it logs as processes of Ray do.
        role: names its log file.
    """

    _name = ""
    _direct = DirectOptions()
    """For the connections that it makes."""

    def __init__(self, build: Callable[[], Actor], wires: WireOptions, logs: LogOptions | None = None, role: str = "") -> None:
        self._hub = LogHub()
        self._logs = ProcessLogs(logs, role, self._hub) if logs is not None else None
        self._wires = Wires(wires, self._direct)
        self._actor = build()
        self._name = self._actor.name
        self._handle = self._handler()
        self._listener = Listener(wires, self._handle)
        self._actor.connections = lambda: self._wires.figures(self._listener.statistics())
        look_less_often()

    def __repr__(self) -> str:
        """The actor's name, under which Ray's dashboard and log lines show the process, also when it could not be built."""
        return self._name or type(self).__name__

    async def endpoint(self) -> Endpoint | None:
        """Where this process listens; None where messages come over Ray."""
        return await self._listener.endpoint()

    async def put_logs(self, batch: bytes) -> None:
        """Take lines of another process, for programs that ask for them."""
        self._hub.put_batch(batch)

    async def poll_logs(self, hub: str, first: int, wait_s: float) -> LogPage:
        """The lines from a batch on: see LogHub.page."""
        return await self._hub.page(hub, first, wait_s)

    async def put_events(self, batch: bytes) -> None:
        """Take events that another process tells: see LogHub.put_events."""
        self._hub.put_events(batch)

    async def whereabouts(self) -> Whereabouts:
        """Where this process is, and whether others have to wait for it, or it for them."""
        return Whereabouts(this_node())

    async def leave(self, node: str) -> None:
        """End this process if it is on a node that is about to end: Ray starts it again on another one.

        Args:
            node: its id. A process that was started in place of the one that is meant is elsewhere.
        """
        if node == this_node():
            print("this process leaves its node, which drains", file=sys.__stderr__, flush=True)
            os._exit(1)

    async def keep_events(self, events: Sequence[DeploymentEvent]) -> None:
        """Keep the events of a process that ends."""
        self._hub.add_events(events)

    async def deployment_events(self) -> Sequence[DeploymentEvent]:
        """The events that are kept here."""
        return self._hub.events()

    async def receive(self, raw: bytes, slot: int = 0) -> bytes:
        """Hand a message to the actor and return its reply."""
        return await self._handle(raw, slot)

    def _handler(self) -> Handler:
        # Not `self.receive`: Ray wraps the methods of its actors' classes.
        receive = self._actor.receive
        return lambda raw, _: receive(raw)


class PlanHost(RayActorHost):
    """The process of an actor that also keeps the definitions of flows.

    Args:
        plans: the definitions that it has from the beginning, and where it finds others when it is started again.
        wires, logs, role: see RayActorHost.
    """

    def __init__(
        self, build: Callable[[], Actor], plans: KeptPlans, wires: WireOptions, logs: LogOptions | None, role: str
    ) -> None:
        super().__init__(build, wires, logs, role)
        self.plans = plans

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
        return self.plans.names()


class LimiterHost(RayActorHost):
    """The process of the actor that limits models.

    Args:
        chunks: of what builds the actor, and of its WireOptions.
    """

    def __init__(self, *chunks: bytes) -> None:
        super().__init__(*from_chunks(chunks))


class McpHost(RayActorHost):
    """The process of the actor of an MCP server. Programs get its log from the hub of a Runner, as that of agents.

    Args:
        runner: the Runner that starts it.
        chunks: of what builds the actor, of its WireOptions, its LogOptions, and the name of its log file.
    """

    def __init__(self, runner: Handle, *chunks: bytes) -> None:
        build, wires, logs, role = from_chunks(chunks)
        ProcessLogs(logs, role, ToRunner(runner))
        super().__init__(build, wires)


class ModelHost:
    """Holds the only instances of the stateful models (e.g. `ScriptedModel`) of a deployment.

    Args:
        chunks: of nothing but the environment variables of the deployment.
    """

    def __init__(self, *chunks: bytes) -> None:
        from_chunks(chunks)
        self._models: dict[int, SharedModel] = {}

    async def add(self, slot: int, *chunks: bytes) -> None:
        """Take a model in. All other methods find it by its slot."""
        self._models[slot] = from_chunks(chunks)

    async def generate(self, slot: int, request: bytes, stream: bool) -> list[bytes]:
        """Ask a model. Returns its encoded LlmResponses."""
        try:
            async with Responses(self._models[slot], decode(request, LlmRequest), stream=stream) as responses:
                return [encode(response) async for response in responses]
        except Exception as error:
            # Ray keeps the error, and not where it was raised.
            keep_traceback(error)
            raise

    async def state(self, slot: int) -> bytes:
        """The state of a model now."""
        return self._models[slot].state()
