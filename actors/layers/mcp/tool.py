"""One tool of an MCP server."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ReadonlyContext, ToolContext
from actors.errors import McpToolError
from actors.layers.mcp.client import reached
from actors.layers.mcp.messages import CallMcpTool, McpResult, McpServer, McpToolInfo
from actors.messages.content import Part
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm.model import FunctionDeclaration


class ToolSource(Protocol):
    """What a tool has to know of the McpTools that it belongs to."""

    server: McpServer
    require_confirmation: Any

    async def session_headers(self, context: ReadonlyContext) -> dict[str, str]:
        """The headers of the session's requests."""
        ...

    def may_need_consent(self, tool: str) -> bool:
        """Whether some call of a tool may need the user's consent."""
        ...


class McpTool(Tool):
    """A tool of an MCP server.

    Args:
        source: the McpTools.
        info: what the server says of it.
        name: by which models call it.
    """

    def __init__(self, source: ToolSource, info: McpToolInfo, name: str) -> None:
        self.name = name
        self.description = info.description
        self.require_confirmation = source.may_need_consent(info.name)
        self._source = source
        self._info = info

    def declaration(self) -> FunctionDeclaration:
        """The tool as its server describes it."""
        # Some models refuse a schema that names its dialect.
        parameters = {name: value for name, value in self._info.parameters.items() if name != "$schema"}
        return FunctionDeclaration(
            name=self.name, description=self.description, parameters=parameters if parameters.get("properties") else None
        )

    async def needs_confirmation(self, args: JsonObject, context: ToolContext) -> bool:
        """The answer of the McpTools' `require_confirmation`. Raises what the user's function raises."""
        says: bool | Sequence[str] | Callable[[str, JsonObject], Any] = self._source.require_confirmation
        if not callable(says):
            return True
        needed = says(self._info.name, args)
        return bool(await needed if inspect.isawaitable(needed) else needed)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonValue:
        """Have the server do it. When the server asks the user something the turn is paused.

        Raises:
            McpToolError: the tool has failed.
            McpServerError: the server gives no answer.
        """
        message = CallMcpTool(
            session=context.session_key,
            headers=await self._source.session_headers(context),
            tool=self._info.name,
            args=args,
            call_id=context.function_call_id,
            memo=context.input.memo if context.input is not None else None,
            answer=context.input.response if context.input is not None else None,
        )
        result = await reached(context, self._source.server.name).call_tool(self._source.server, message)
        if result.question is not None:
            context.request_input(result.question, result.memo)
            return None
        text = "\n".join(part.text for part in result.parts if part.text)
        if result.is_error:
            raise McpToolError(self.name, text or "the server does not say why")
        return await self._response(result, text, context)

    async def _response(self, result: McpResult, text: str, context: ToolContext) -> JsonObject:
        """The result for the model. Data is saved as artifacts."""
        data = [part for part in result.parts if part.inline_data is not None]
        saved = [await self._saved(part, number, context) for number, part in enumerate(data)]
        response: JsonObject = dict(result.structured) if result.structured is not None else {"result": text}
        return {**response, "artifacts": saved} if saved else response

    async def _saved(self, part: Part, number: int, context: ToolContext) -> str:
        assert part.inline_data is not None
        kind = (part.inline_data.mime_type or "").partition(";")[0]
        filename = f"{self.name}_{context.function_call_id}_{number}{_ENDINGS.get(kind, '')}"
        await context.save_artifact(filename, part)
        return filename


_ENDINGS: Mapping[str, str] = {
    "application/json": ".json",
    "application/pdf": ".pdf",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "text/plain": ".txt",
}
"""How the names of artifacts end, by the type of the data."""
