"""What others have made, taken into a tree: google-adk's agents, MCP servers, APIs with a document, and models' Python."""
