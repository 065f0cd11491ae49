"""What MCP servers say, in this project's words."""

from __future__ import annotations

import base64

import mcp_types as types

from actors.layers.mcp.messages import McpResult, McpToolInfo
from actors.messages.content import Blob, Part
from actors.messages.json_types import JsonObject


def tool_info(tool: types.Tool) -> McpToolInfo:
    """A tool."""
    return McpToolInfo(name=tool.name, description=tool.description or tool.title or "", parameters=tool.input_schema)


def question_of(params: types.ElicitRequestParams) -> JsonObject:
    """The question of a server to the user: a form to fill in, or a page to visit."""
    if isinstance(params, types.ElicitRequestURLParams):
        return {"message": params.message, "url": params.url}
    schema = params.model_dump(by_alias=True, mode="json", exclude_none=True).get("requestedSchema", {})
    return {"message": params.message, "requestedSchema": schema}


def result_of(result: types.CallToolResult) -> McpResult:
    """The tool's result, out of that of a call."""
    structured = result.structured_content
    return McpResult(
        structured=structured if isinstance(structured, dict) else None,
        parts=[_part(block) for block in result.content],
        is_error=bool(result.is_error),
    )


def _part(block: types.ContentBlock) -> Part:
    match block:
        case types.TextContent(text=text):
            return Part(text=text)
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            return _data(data, kind)
        case types.EmbeddedResource(resource=types.BlobResourceContents(blob=blob, mime_type=kind)):
            return _data(blob, kind or "application/octet-stream")
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return Part(text=text)
        case types.ResourceLink(uri=uri, name=name):
            return Part(text=f"{name}: {uri}")
    return Part(text=block.model_dump_json(by_alias=True, exclude_none=True))


def _data(encoded: str, kind: str) -> Part:
    return Part(inline_data=Blob(mime_type=kind, data=base64.b64decode(encoded)))


def pages_of(data: object) -> dict[str, JsonObject]:
    """The pages that a user has to visit before a call, by numbers, out of the data of an error."""
    pages = data.get("elicitations", []) if isinstance(data, dict) else []
    return {str(number): {"message": page.get("message", ""), "url": page.get("url", "")} for number, page in enumerate(pages)}
