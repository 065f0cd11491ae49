"""MCP servers on the engine without Ray: their actors live on the event loop of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.actor import Actor
from actors.errors import DefinitionError
from actors.interfaces.transport import Link
from actors.layers.mcp.messages import McpServer
from actors.refs import Ref
from runtime.integrations.mcp.actor import McpActor


class LocalMcpServers:
    """Starts the actors of servers when they are first asked for, and stops them.

    Args:
        link: gives the link to an actor.
    """

    def __init__(self, link: Callable[[Actor], Link]) -> None:
        self._link = link
        self._started: dict[str, tuple[McpServer, Ref]] = {}

    async def find(self, server: McpServer) -> Ref:
        """A client of a server's actor. Raises DefinitionError when another server has the name."""
        known = self._started.get(server.name)
        if known is None:
            known = self._started[server.name] = server, Ref(self._link(McpActor(server, f"mcp/{server.name}")))
        refuse_other(server, known[0])
        return known[1]

    def started(self) -> Mapping[str, Ref]:
        """Clients of the actors that live, by the names of the servers."""
        return {name: ref for name, (_, ref) in self._started.items()}

    async def stop(self) -> None:
        """Stop all actors."""
        for _, ref in self._started.values():
            await ref.stop()
        self._started.clear()


def refuse_other(server: McpServer, known: McpServer) -> None:
    """Check that a server is the one that is known by its name. Raises DefinitionError."""
    if server != known:
        raise DefinitionError(f"two MCP servers of this app are called {server.name!r}, and differ: name one of them otherwise")
