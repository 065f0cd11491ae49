"""What the actor of an MCP server needs of a connection to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.layers.mcp.messages import CallMcpTool, McpResult, McpToolInfo


class ConnectionGoneError(Exception):
    """A connection to a server could not be made, or is lost. What was asked over it may be asked again over another one."""


class ServerLink(Protocol):
    """A connection to a server."""

    @property
    def is_open(self) -> bool:
        """Whether it takes commands."""
        ...

    async def open(self) -> None:
        """Connect. Raises ConnectionGoneError, McpServerError when trying again is of no use, DefinitionError."""
        ...

    def retire(self) -> None:
        """Take no more commands, and disconnect when those under way are over."""
        ...

    async def close(self) -> None:
        """Disconnect, and end a server that was started."""
        ...

    async def list_tools(self) -> Sequence[McpToolInfo]:
        """Ask for all tools. Raises ConnectionGoneError, McpServerError."""
        ...

    async def call(self, message: CallMcpTool) -> McpResult:
        """Call a tool. Raises ConnectionGoneError, McpServerError, McpToolError."""
        ...
