"""Ray actor classes: each holds one actor of this project, or a model, in a process of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

import ray
from ray.exceptions import RayError

from actors.actor import Actor
from actors.errors.tracebacks import keep_traceback
from actors.interfaces.deployment_events import DeploymentEvent, tell_event
from actors.interfaces.model import Responses, SharedModel
from actors.messages.codec import decode, encode
from actors.messages.llm.model import LlmRequest
from actors.messages.protocol.any_message import decode_message
from actors.messages.protocol.base import ErrorReply
from actors.messages.protocol.turns import RecoverTurns
from actors.rules.recovery.backoff import Backoff
from runtime.cluster.collector import look_less_often
from runtime.cluster.handle import Handle
from runtime.cluster.logs.hub import LogHub, LogPage
from runtime.cluster.logs.process import ProcessLogs, ToRunner
from runtime.cluster.packing.chunks import from_chunks
from runtime.cluster.transport.plans import KeptPlans
from runtime.cluster.transport.ray_actors import current_actor, is_restarted
from runtime.cluster.transport.wires import Listener, WireOptions, Wires
from runtime.engine.tool_threads import ToolThreads
from runtime.observability.logs.options import LogOptions
from runtime.transport.endpoint import Endpoint

THREADS = 64
"""Blocking calls that may run in a Runner at the same time: hooks of plugins, artifact stores, Ray's own."""

RECOVERY = Backoff(0.1, 1.0)
"""Times between two attempts of a restarted Runner to recover its turns."""


class RayActorHost:
    """A Ray actor: a process with one actor of this project in it, and with a hub of logs.

    Args:
        build: builds the actor.
        logs: what the process logs; None: it logs as processes of Ray do.
        role: names its log file.
        wires: how it is reached.
    """

    _name = ""

    def __init__(self, build: Callable[[], Actor], wires: WireOptions, logs: LogOptions | None = None, role: str = "") -> None:
        self._hub = LogHub()
        if logs is not None:
            ProcessLogs(logs, role, self._hub)
        self._wires = Wires(wires)
        self._actor = build()
        self._name = self._actor.name
        # Not `self.receive`: Ray wraps the methods of its actors' classes.
        receive = self._actor.receive
        self._listener = Listener(wires, lambda raw, _: receive(raw))
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

    async def deployment_events(self) -> Sequence[DeploymentEvent]:
        """The events that are kept here."""
        return self._hub.events()

    async def receive(self, raw: bytes, _: int = 0) -> bytes:
        """Hand a message to the actor and return its reply."""
        return await self._actor.receive(raw)


class PlanHost(RayActorHost):
    """The process of an actor that also keeps the definitions of flows.

    Args:
        build: builds the actor.
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


class SessionHost(PlanHost):
    """The process of a Session actor. It keeps definitions of flows for the case that a Runner is lost.

    Args:
        chunks: of what builds the actor, of the DeploymentInfo for drivers that join, and of the Runners as PlanPeers.
    """

    def __init__(self, *chunks: bytes) -> None:
        build, self._deployment_info, peers = from_chunks(chunks)
        info = self._deployment_info
        super().__init__(build, KeptPlans({}, peers), info.wires, info.logs, "session")
        if is_restarted():
            self.tell_replaced()
            threading.Thread(target=self.plans.copy_from_peers, daemon=True).start()

    async def deployment_info(self) -> Any:
        """The DeploymentInfo for a driver that joins."""
        return self._deployment_info


class RunnerHost(PlanHost):
    """The process of a Runner. Agents fetch the definitions of flows here.

    When Ray has restarted it, it tells its Runner to recover the turns that were running.

    Args:
        namespace: its own.
        chunks: of what builds the actor, of the pickled definitions of the tree's flows by name, of the Session actors as
            PlanPeers, of its WireOptions and its LogOptions.
    """

    def __init__(self, namespace: str, *chunks: bytes) -> None:
        build, plans, peers, wires, logs = from_chunks(chunks)

        def build_runner() -> Actor:
            actor, self._directory, self._mcp_servers, self._trees = build(self._wires)
            return cast(Actor, actor)

        super().__init__(build_runner, KeptPlans(plans, peers), wires, logs, "runner")
        if is_restarted():
            self.tell_replaced()
            threading.Thread(target=self._recover, args=(current_actor(namespace),), daemon=True).start()

    async def start_spares(self) -> None:
        """Begin to start spare processes for agents."""
        # The first message to a Runner that was started or restarted. Plugins and artifact stores are foreign code, too.
        asyncio.get_running_loop().set_default_executor(ToolThreads(THREADS))
        self._directory.start_spares()

    async def replace_process(self, name: str) -> None:
        """Replace a process of agents that is worn out, at its own request."""
        self._directory.replace(name)

    async def mcp_server(self, raw: bytes) -> str:
        """Have the actor of an MCP server live. Returns its name. Raises DefinitionError, ClusterError."""
        name: str = await self._mcp_servers.start(raw)
        return name

    async def plan(self, name: str) -> bytes | None:
        """The pickled definition of a flow, or None; after a restart it may have to be fetched from a Session actor's process."""
        later: bytes | None = self._trees.plans.get(name)
        return later if later is not None else await self.plans.find(name)

    def _recover(self, actor: Handle) -> None:
        # The agents of the turns that go on need processes, which take longer to start than it takes to find the turns.
        actor.start_spares.remote()
        # Sent until there is a reply: a message that an actor sends to itself while it starts may get lost.
        raw = encode(RecoverTurns())
        asked: list[ray.ObjectRef[bytes]] = []
        for attempt in count(1):
            asked.append(actor.receive.remote(raw))
            # To any of them: each may take longer than this.
            pause_s = RECOVERY.after_attempts(attempt)
            replies, asked = ray.wait(asked, timeout=pause_s)
            if replies and _is_answered(replies[0]):
                break
            if replies:
                # It was lost, or the store is away, or a Session actor. A turn that no driver follows would wait for ever.
                time.sleep(pause_s)
        actor.start_spares.remote()
        self.plans.copy_from_peers()


def _is_answered(reply: ray.ObjectRef[bytes]) -> bool:
    try:
        return not isinstance(decode_message(ray.get(reply)), ErrorReply)
    except RayError:
        return False


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
