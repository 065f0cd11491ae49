"""Tools that come with raygrove: of artifacts, of memory, for loops, and those of Gemini, whose service runs them itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from actors.definitions.tools.base import RequestTool, add_to
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.definitions.tools.function import FunctionTool
from actors.errors import NoMemoryError, StoreError
from actors.errors.hints import explains_wrong_calls
from actors.messages.config import KIB
from actors.messages.content import Content, Part
from actors.messages.event import USER
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest
from actors.messages.session import MemoryEntry
from actors.rules.checks.values import beginning_and_end
from actors.rules.prompt.instructions import transient_place


class BuiltInTool(RequestTool):
    """A tool of the model's service. It is put into `config.tools` of each request; a model that does not know it ignores it.

    Args:
        name: the field of google-genai's Tool, for instance "google_search".
        options: the fields of that tool's own configuration; default none.
    """

    @explains_wrong_calls
    def __init__(self, name: str, options: JsonObject | None = None) -> None:
        self.name = name
        self.options = dict(options or {})

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Put the tool into the configuration."""
        add_to(request, {self.name: dict(self.options)})


google_search = BuiltInTool("google_search")
"""Lets Gemini search the web. What it found is on the event with the answer: `grounding_metadata`."""

url_context = BuiltInTool("url_context")
"""Lets Gemini read the pages whose addresses stand in the conversation."""

code_execution = BuiltInTool("code_execution")
"""Lets Gemini write Python and run it at its service, as `code_executor=BuiltInCodeExecutor()` does."""

_READABLE = ("text/", "application/json", "application/xml")
"""Data of these types is shown as text, which every model can read."""

MOST_SHOWN = 256 * KIB
"""Characters that are shown of one text. A request with more would be refused, and its turn fail."""


async def _load_artifacts(artifact_names: list[str], context: ToolContext) -> dict[str, list[str]]:
    """Show what is in artifacts of this conversation. It is shown once, right behind the answer to the call.

    Args:
        artifact_names: the names of the artifacts to show.
    """
    available = await context.list_artifacts()
    wanted = list(dict.fromkeys(artifact_names))
    missing = [name for name in wanted if name not in available]
    answer = {"artifact_names": [name for name in wanted if name in available]}
    return {**answer, "missing": missing, "available": available} if missing else answer


class LoadArtifactsTool(FunctionTool):
    """Lists the session's artifacts in the system instruction, and shows the model those that it asks for.

    Only the names are logged. The data is put into the one request that follows the call.
    """

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """List the artifacts in the system instruction, and add those just asked for after the answer to the call."""
        names = await context.list_artifacts()
        if names:
            request.append_instructions([_listing(self.name, names)])
        asked = self._asked_for(request.contents)
        if not asked:
            return
        parts: list[Part] = []
        for name in asked:
            part = await context.load_artifact(name)
            if part is not None:
                parts += [Part(text=f'Artifact "{name}":'), _readable(part)]
        if parts:
            request.contents.append(Content(role=USER, parts=parts))

    def _asked_for(self, contents: Sequence[Content]) -> list[str]:
        """The artifacts that the newest content, the answer to a call of this tool, names as loaded."""
        responses = contents[-1].function_responses() if contents else ()
        loaded = [response.response.get("artifact_names") or [] for response in responses if response.name == self.name]
        return list(dict.fromkeys(name for names in loaded for name in names))


def _listing(tool: str, names: Sequence[str]) -> str:
    listed = "\n".join(f"- {name}" for name in names)
    return f"There are these artifacts:\n{listed}\nTo see what is in some of them, call the function `{tool}` with their names."


def _readable(part: Part) -> Part:
    blob = part.inline_data
    if blob is not None and (blob.mime_type or "").startswith(_READABLE):
        return Part(text=beginning_and_end(blob.data.decode(errors="replace"), MOST_SHOWN))
    return Part(text=beginning_and_end(part.text, MOST_SHOWN)) if part.text else part


load_artifacts = LoadArtifactsTool(_load_artifacts, name="load_artifacts")
"""Shows an agent the artifacts of its session that it asks for, those shared by the user's sessions (`user:`) included."""

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


async def _exit_loop(context: ToolContext) -> str:
    """Ends the loop. Call it only when you are told to, and write nothing beside the call."""
    context.actions.escalate = True
    context.actions.skip_summarization = True
    return "the loop ends"


exit_loop = FunctionTool(_exit_loop, name="exit_loop")
"""Sets `escalate`, which ends the enclosing loop, and `skip_summarization`, which ends the run of its agent."""
exit_loop.only_decides = True
