"""The built-in tool that shows artifacts to the model."""

from __future__ import annotations

from collections.abc import Sequence

from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.definitions.tools.function import FunctionTool
from actors.messages.content import Content, Part
from actors.messages.event import USER
from actors.messages.limits import KIB
from actors.messages.llm.model import LlmRequest
from actors.rules.checks.sizes import beginning_and_end

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
