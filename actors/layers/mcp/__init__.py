"""The tools of MCP servers: what they say to their servers' actors, and how agents have them."""
