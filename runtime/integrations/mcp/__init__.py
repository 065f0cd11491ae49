"""The actors of MCP servers: connections that all agents of a deployment share. Install `raygrove[mcp]` for it."""
