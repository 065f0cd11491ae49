"""The built-in tool that searches what is remembered of the user."""

from __future__ import annotations

from datetime import UTC, datetime

from actors.definitions.tools.context import ToolContext
from actors.definitions.tools.function import FunctionTool
from actors.messages.json_types import JsonObject


async def _load_memory(query: str, context: ToolContext) -> JsonObject:
    """Look up what was said in earlier conversations with this user. The best match comes first.

    Args:
        query: words that it has to do with.
    """
    found = await context.search_memory(query)
    memories = [
        {
            "author": entry.author,
            "timestamp": datetime.fromtimestamp(entry.timestamp, UTC).isoformat(timespec="seconds"),
            "session_id": entry.session_id,
            "text": entry.text,
        }
        for entry in found
    ]
    return {"memories": memories}


load_memory = FunctionTool(_load_memory, name="load_memory")
"""Searches the memory of the user. It finds sessions that were added with `rt.memory.add_session`."""
