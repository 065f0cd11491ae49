"""Servers and clients for tests of the HTTP service."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.applications import Starlette

from runtime.frontends.web.connections import ConnectionLimits
from runtime.frontends.web.serving import WebServer

if TYPE_CHECKING:
    # The environment of google-adk has another one.
    import httpx2

TIMEOUT_S = 30.0


@contextmanager
def serving(app: Starlette, limits: ConnectionLimits | None = None, port: int = 0) -> Iterator[str]:
    """Serve an application in a thread while the block lasts. Gives its URL; `port` 0 takes one that is free."""
    ready: queue.Queue[str] = queue.Queue()
    server = WebServer(app, "127.0.0.1", port, on_ready=ready.put, limits=limits)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield ready.get(timeout=TIMEOUT_S)
    finally:
        server.should_exit = True
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


@contextmanager
def serving_process(app_name: str, address: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own that has joined a deployment, while the block lasts; and its URL."""
    command = [str(Path(sys.executable).with_name("raygrove")), "serve", app_name, "--join", "--address", address, "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            named, _, url = process.stdout.readline().strip().partition(" at ")
            assert named == app_name
            yield process, url
        finally:
            process.kill()


class Frame(NamedTuple):
    """One frame of a stream."""

    id: str
    kind: str
    data: Any


async def frames(response: httpx2.Response) -> AsyncIterator[Frame]:
    """The frames of a stream, read as browsers do."""
    id, kind, data = "", "message", ""
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield Frame(id, kind, json.loads(data))
            id, kind, data = "", "message", ""
        elif name == "id":
            id = value
        elif name == "event":
            kind = value
        elif name == "data":
            data += value


async def all_frames(response: httpx2.Response) -> list[Frame]:
    """All frames of a stream that ends."""
    return [frame async for frame in frames(response)]
