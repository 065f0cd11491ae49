"""The way to MCP servers where there is none."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import McpServerError
from actors.messages.protocol.mcp import CallMcpTool, McpResult, McpServer, McpToolInfo
from actors.messages.session import SessionKey

_NO_WAY = "no MCP server can be reached from here: its tools are those of agents that run in a deployment"


class NoMcp:
    """Implements `actors.interfaces.context.McpAccess` where no server can be reached."""

    async def list_tools(self, server: McpServer, session: SessionKey, headers: dict[str, str]) -> Sequence[McpToolInfo]:
        """Raise McpServerError."""
        raise McpServerError(server.name, _NO_WAY)

    async def call_tool(self, server: McpServer, message: CallMcpTool) -> McpResult:
        """Raise McpServerError."""
        raise McpServerError(server.name, _NO_WAY)
