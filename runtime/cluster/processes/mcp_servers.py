"""The actors of MCP servers on Ray: a Runner starts them when its agents first need them, and ends them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import ray

from actors.errors import ClusterError, RaygroveError
from actors.layers.mcp.messages import McpServer
from actors.messages.codec import decode
from actors.refs import Ref
from runtime.cluster.host import RayActorHost
from runtime.cluster.logs import ProcessLogs, ToRunner
from runtime.cluster.packing.pickling import from_chunks, to_chunks
from runtime.cluster.processes.placing import core_options
from runtime.cluster.transport.ray_actors import Handle, RayOptions, current_actor, get_actor, start_actor
from runtime.cluster.transport.wires import Wires
from runtime.integrations.mcp.actor import McpActor
from runtime.observability.logs.sinks import LogOptions
from runtime.settings import Settings

MANY = 1_000_000
"""Messages at the same time: thousands of agents may wait for one slow server."""


def mcp_name(app_name: str, server: str) -> str:
    """`<app>/mcp/<server>`, the actor of an MCP server."""
    return f"{app_name}/mcp/{server}"


class StartedMcpServers:
    """In a Runner's process: the actors of MCP servers that its agents need. They are lost with the Runner, as its agents are."""

    def __init__(self, app_name: str, settings: Settings, wires: Wires, logs: LogOptions) -> None:
        self._app_name = app_name
        self._settings = settings
        self._wires = wires
        self._logs = logs
        self._known: dict[str, McpServer] = {}
        self._own: dict[str, Handle] = {}
        self._starting = asyncio.Lock()

    async def start(self, raw: bytes) -> str:
        """Start the actor of a server, unless it lives. Returns its name.

        Args:
            raw: the McpServer, encoded.

        Raises:
            DefinitionError: another server has the name.
            ClusterError: it cannot be started.
        """
        server = decode(raw, McpServer)
        server.check_same(self._known.setdefault(server.name, server))
        name = mcp_name(self._app_name, server.name)
        async with self._starting:
            try:
                # Starting a named actor waits for Ray's control service, so it is done in a thread.
                await asyncio.to_thread(self._start, server, name)
            except RaygroveError:
                raise
            except Exception as error:
                raise ClusterError(f"the actor {name} could not be started: {type(error).__name__}: {error}") from error
        return name

    def _start(self, server: McpServer, name: str) -> None:
        settings = self._settings
        with suppress(ValueError):
            get_actor(name, settings.namespace)
            return
        content = (partial(McpActor, server, name), self._wires.options, self._logs, f"mcp-{server.name}")
        chunks = to_chunks(f"MCP server {server.name!r} cannot travel to its actor", content, variables=settings.variables)
        options: RayOptions = {"max_restarts": -1, **core_options(settings)}
        # Another Runner may be the first.
        with suppress(ValueError):
            self._own[server.name] = start_actor(
                McpHost, name, settings.namespace, MANY, current_actor(settings.namespace), *chunks, **options
            )

    async def close(self) -> None:
        """End the actors that were started here: they close their connections first."""
        own, self._own = self._own, {}
        await asyncio.gather(*(self._end(name, handle) for name, handle in own.items()))

    async def _end(self, server: str, handle: Handle) -> None:
        with suppress(RaygroveError, TimeoutError):
            async with asyncio.timeout(self._settings.stop_timeout_s):
                await Ref(self._wires.link(handle, f"MCP server {server!r}")).stop()
        ray.kill(handle)


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
