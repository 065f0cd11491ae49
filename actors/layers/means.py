"""What features reach in the processes of agents: the one place that knows all of it."""

from __future__ import annotations

from actors.interfaces.access import BackgroundAccess, Means, MemoryAccess
from actors.interfaces.clock import Clock
from actors.layers.background.client import SessionRuns
from actors.layers.flows.definitions.flow import FlowPlans
from actors.layers.mcp.toolset import McpServers
from actors.layers.memory import UserMemory
from actors.layers.schedules.client import ScheduleClient
from actors.refs import SessionRef


def all_means(session: SessionRef, servers: McpServers, plans: FlowPlans, clock: Clock) -> Means:
    """Return all that features reach, by its class."""
    return {
        McpServers: lambda _: servers,
        FlowPlans: lambda _: plans,
        MemoryAccess: lambda key: UserMemory(session, key),
        ScheduleClient: lambda key: ScheduleClient(session, key.app, clock),
        SessionRuns: lambda key: SessionRuns(session, key, clock),
        BackgroundAccess: lambda key: SessionRuns(session, key, clock),
    }
