"""The tools of the memory of a user: one that models call, and one that searches for each message."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.definitions.tools.function import FunctionTool
from actors.definitions.tools.requests import RequestTool
from actors.errors import NoMemoryError, StoreError
from actors.messages.content import Content
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import LlmRequest
from actors.messages.memory import MemoryEntry
from actors.rules.prompt.transient import transient_place

logger = logging.getLogger(__name__)


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


class PreloadMemoryTool(RequestTool):
    """Searches the user's memory for the words of the turn's message, before each model call, and shows what it finds."""

    name = "preload_memory"

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Add what is found to the conversation, before the user's newest message. Raises NoMemoryError if the app has none."""
        query = context.user_content.text
        if not query:
            return
        try:
            found = await context.search_memory(query)
        except NoMemoryError:
            raise
        except StoreError as error:
            # The agent can answer without it, and the memory may be back for its next request.
            logger.warning("agent %r goes without its memory: %s", context.agent_name, error)
            return
        if found:
            request.contents.insert(transient_place(request.contents), Content.of_text(_text(found)))


def _text(found: Sequence[MemoryEntry]) -> str:
    said = [f"[{_time(entry)}] {entry.author}: {entry.text}" for entry in found]
    return "\n".join(
        ["Of earlier conversations with this user you remember, where it helps to answer:", "<memory>", *said, "</memory>"]
    )


def _time(entry: MemoryEntry) -> str:
    return datetime.fromtimestamp(entry.timestamp, UTC).isoformat(timespec="seconds")


preload_memory = PreloadMemoryTool()
"""Shows the model what the user's memory has about each message. It finds sessions that `rt.memory.add_session` has added."""
