"""Names that programs of google-adk and LangGraph import, and what stands here in their place."""

from __future__ import annotations

_RUNTIME = "Runtime(root_agent, app_name=…) runs a tree: rt.run(user_id=…, session_id=…, message=…), or rt.ask(…)"
_SESSIONS = "Runtime(…, session_store='sqlite:///sessions.db'), or a URL of PostgreSQL; rt.sessions reads them"
_ARTIFACTS = "Runtime(…, artifact_store='file:///…')"
_MEMORY = "Runtime(…, memory_store='sqlite:///…')"
_GRAPH = "Graph(name=…, edges=[(START, first, second)]), whose nodes are functions and agents"

_INSTEAD = {
    "App": "Runtime(root_agent, app_name=…, plugins=[…]); it takes an App of google-adk as it is, too",
    "BaseTool": "Tool, or a function with @tool",
    "BasePlugin": "Plugin",
    "BaseToolset": "Toolset",
    "MCPToolset": "McpTools",
    "McpToolset": "McpTools",
    "OpenAPIToolset": "OpenApiTools",
    "InMemoryRunner": _RUNTIME,
    "Runner": _RUNTIME,
    "InMemorySessionService": _SESSIONS,
    "DatabaseSessionService": _SESSIONS,
    "SqliteSessionService": _SESSIONS,
    "InMemoryArtifactService": _ARTIFACTS,
    "FileArtifactService": _ARTIFACTS,
    "GcsArtifactService": _ARTIFACTS,
    "InMemoryMemoryService": _MEMORY,
    "END": "nothing: a graph ends where no edge leads on",
    "StateGraph": _GRAPH,
    "MessageGraph": _GRAPH,
    "Command": "ctx.route = … and ctx.state[…] = … in a function of a Graph",
    "Send": "node(…, parallel_worker=True), which runs once for each item of a list",
    "interrupt": "a function of a Graph that returns RequestInput(message=…)",
    "MemorySaver": _SESSIONS,
    "InMemorySaver": _SESSIONS,
    "SqliteSaver": _SESSIONS,
    "PostgresSaver": _SESSIONS,
    "create_react_agent": "LlmAgent(name=…, model=…, tools=[…])",
    "create_agent": "LlmAgent(name=…, model=…, tools=[…])",
    "ToolNode": "LlmAgent(…, tools=[…]), which calls its tools itself",
}


def refuse_other_name(package: str, name: str) -> None:
    """Say what to use in place of a name of another library.

    Raises:
        ImportError: it is one. Of an AttributeError, `from … import` would keep nothing.
    """
    if (instead := _INSTEAD.get(name)) is not None:
        raise ImportError(f"{package} has no {name}. In its place: {instead}", name=package)
