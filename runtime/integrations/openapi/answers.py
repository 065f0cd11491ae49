"""What a model sends and gets as artifacts, and what it gets of an answer."""

from __future__ import annotations

import hashlib
import json
import mimetypes
from typing import TYPE_CHECKING

from actors.definitions.tools.context import ToolContext
from actors.errors.suggestions import did_you_mean
from actors.messages.content import Blob, Part
from actors.messages.json_types import JsonObject
from runtime.integrations.openapi.wire import WireRequest

if TYPE_CHECKING:
    from runtime.integrations.openapi.client import Files, HttpAnswer


async def attached(request: WireRequest, context: ToolContext) -> Files:
    """Load the artifacts that a request sends. Raises ValueError for one that there is not."""
    if request.artifact is not None:
        _, request.content, media_type = await _loaded(request.artifact, context)
        if "*" in request.headers.get("Content-Type", "*"):
            request.headers["Content-Type"] = media_type
    return [(field, await _loaded(name, context)) for field, name in request.files]


async def _loaded(name: str, context: ToolContext) -> tuple[str, bytes, str]:
    part = await context.load_artifact(name)
    if part is None:
        available = await context.list_artifacts()
        hint = did_you_mean(name, available)
        raise ValueError(f"there is no artifact {name!r}.{hint} There are: {', '.join(available) or 'none'}")
    shown = name.removeprefix("user:").rpartition("/")[2] or "artifact"
    if part.inline_data is not None:
        return shown, part.inline_data.data, part.inline_data.mime_type or "application/octet-stream"
    return shown, (part.text or "").encode(), "text/plain"


async def result_of(tool: str, request: WireRequest, answer: HttpAnswer, context: ToolContext) -> JsonObject:
    """The tool's result for the model, out of an answer."""
    from runtime.integrations.openapi.client import is_text

    result: JsonObject = {"status": answer.status}
    if answer.status >= 400:
        result["error"] = f"{request.shown} was answered with {answer.status} {answer.reason}".rstrip()
    if answer.location:
        result["location"] = answer.location
    if answer.retry_after:
        result["retry_after"] = answer.retry_after
    text = _as_text(answer)
    if not answer.data:
        return result
    if text is not None and (is_text(answer.media_type) or not answer.media_type or "error" in result):
        return {**result, **_readable(answer, text)}
    if "error" in result:
        return {**result, "body": f"{len(answer.data)} bytes of {answer.media_type}"}
    if answer.is_cut:
        return {**result, "error": f"the answer is larger than {len(answer.data)} bytes of {answer.media_type}, and was not kept"}
    ending = mimetypes.guess_extension(answer.media_type) or ".bin"
    filename = f"{tool}-{repeat_key(tool, context)[:8]}{ending}"
    media_type = answer.media_type or "application/octet-stream"
    await context.save_artifact(filename, Part(inline_data=Blob(data=answer.data, mime_type=media_type)))
    return {**result, "artifact": filename, "mime_type": media_type, "bytes": len(answer.data)}


def _as_text(answer: HttpAnswer) -> str | None:
    try:
        return answer.data.decode(answer.charset, errors="replace" if answer.is_cut or answer.media_type else "strict")
    except (LookupError, UnicodeDecodeError):
        return None


def _readable(answer: HttpAnswer, text: str) -> JsonObject:
    from runtime.integrations.openapi.client import is_json

    if answer.is_cut:
        return {"body": text, "truncated": f"this is the beginning, of {len(answer.data)} bytes: ask for less"}
    if not is_json(answer.media_type) and answer.media_type:
        return {"body": text}
    try:
        return {"body": json.loads(text)}
    except (ValueError, RecursionError):
        return {"body": text}


def repeat_key(tool: str, context: ToolContext) -> str:
    """The same for a call that is made again, and no other call's: ids of calls are unique in their session only."""
    session = context.session
    parts = (session.app_name, session.user_id, session.id, context.function_call_id, tool)
    return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()[:32]
