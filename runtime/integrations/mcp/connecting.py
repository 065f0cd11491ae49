"""Makes connections, with the library for MCP where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.errors import DefinitionError
from actors.layers.mcp.messages import McpServer
from runtime.integrations.mcp.link import ServerLink

Connect = Callable[[McpServer, Mapping[str, str], Callable[[], None], float | None], ServerLink]
"""Makes a connection that is yet to be opened: of the server, headers, what to call when its tools change, and `idle_s`."""


def connect(server: McpServer, headers: Mapping[str, str], on_change: Callable[[], None], idle_s: float | None) -> ServerLink:
    """Make a connection with the library for MCP, which is imported now. Raises DefinitionError when it is missing."""
    try:
        from runtime.integrations.mcp.connection import McpConnection
    except ModuleNotFoundError as error:
        raise DefinitionError(
            f"McpTools {server.name!r} needs the package {error.name!r} where the actor of the server runs: "
            "pip install 'raygrove[mcp]'"
        ) from error
    return McpConnection(server, headers, on_change, idle_s)
