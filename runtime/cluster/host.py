"""The Ray actor that holds one actor of this project, in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from actors.actor import Actor
from runtime.cluster.logs import LogHub, LogPage, ProcessLogs
from runtime.cluster.rules.leaving import Whereabouts
from runtime.cluster.transport.ray_actors import this_node
from runtime.cluster.transport.wires import Listener, WireOptions, Wires
from runtime.engine.process.collector import look_less_often
from runtime.observability.logs.kept import DeploymentEvent
from runtime.observability.logs.sinks import LogOptions
from runtime.transport.endpoint import Endpoint
from runtime.transport.io.server_connection import Handler
from runtime.transport.options import DirectOptions


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
            end_process("this process leaves its node, which drains")

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


def end_process(why: str) -> None:
    """End this process: Ray starts it again, where its actor is to live on."""
    print(why, file=sys.__stderr__, flush=True)
    os._exit(1)
