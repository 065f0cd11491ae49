"""The built-in tool that shows the model what is remembered of the user, without being asked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from actors.definitions.tools.context import CallbackContext
from actors.definitions.tools.requests.base import RequestTool
from actors.errors import NoMemoryError, StoreError
from actors.messages.content import Content
from actors.messages.llm.model import LlmRequest
from actors.messages.memory import MemoryEntry
from actors.rules.prompt.transient import transient_place

logger = logging.getLogger(__name__)


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
