"""What tools of features reach in the processes of agents: the one place that knows all of it."""

from __future__ import annotations

from actors.interfaces.access import Means
from actors.interfaces.clock import Clock
from actors.layers.mcp.client import McpServers
from actors.layers.schedules.client import UserSchedules
from actors.refs.session import SessionRef


def all_means(session: SessionRef, servers: McpServers, clock: Clock) -> Means:
    """Return all that tools reach, by its class.

    Args:
        session: the client of the Session actors.
        servers: the MCP servers.
        clock: of the process.
    """
    return {McpServers: lambda _: servers, UserSchedules: lambda key: UserSchedules(session, key, clock)}
