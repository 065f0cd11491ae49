"""Reads what servers send before the library does, which is stricter than the protocol.

The library refuses a whole list of tools for one in it whose schema is malformed, and a result of the newest revision without a
type. So such a tool is left out, and such a result is complete, as the protocol has it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import mcp_types as types
from mcp.client import Transport
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from actors.messages.json_types import JsonObject

logger = logging.getLogger(__name__)


def mended_messages(
    transport: Transport, server: str, version: Callable[[], str | None]
) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """A transport whose results name their type, and whose lists of tools have well-formed ones only.

    Args:
        transport: what the server's messages come from.
        server: the server's name, for the warning that names a tool that is left out.
        version: the protocol's version that was agreed on; None before.
    """

    @asynccontextmanager
    async def connected() -> AsyncIterator[tuple[Any, Any]]:
        async with transport as (reading, writing):
            yield _Messages(reading, server, version), writing

    return connected()


class _Messages:
    """A stream of messages, with the context of each sender as the stream below has it."""

    def __init__(self, below: Any, server: str, version: Callable[[], str | None]) -> None:
        self._below = below
        self._server = server
        self._version = version
        self._warned: set[str] = set()

    @property
    def last_context(self) -> object:
        return getattr(self._below, "last_context", None)

    async def receive(self) -> object:
        return self._read(await self._below.receive())

    async def aclose(self) -> None:
        await self._below.aclose()

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> object:
        return self._read(await self._below.__anext__())

    async def __aenter__(self) -> _Messages:
        await self._below.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        left: bool | None = await self._below.__aexit__(*error)
        return left

    def _read(self, received: object) -> object:
        message = getattr(received, "message", None)
        if isinstance(message, types.JSONRPCResponse):
            result = message.result
            if self._version() in MODERN_PROTOCOL_VERSIONS:
                result.setdefault("resultType", "complete")
            # Of all results only a list of tools has `tools` at its top.
            if isinstance(result.get("tools"), list) and _wrong(result, self._version()):
                result["tools"] = [tool for tool in result["tools"] if self._is_well_formed({**result, "tools": [tool]})]
        return received

    def _is_well_formed(self, result: JsonObject) -> bool:
        wrong = _wrong(result, self._version())
        # What is wrong with the list itself is for the library to say.
        if not wrong or _wrong({**result, "tools": []}, self._version()):
            return True
        tool = result["tools"][0]
        name = tool.get("name") if isinstance(tool, dict) else None
        warning = f"the tool {name!r} of MCP server {self._server!r} is left out, because it is malformed: {wrong}"
        if warning not in self._warned:
            self._warned.add(warning)
            logger.warning(warning)
        return False


def _wrong(result: Mapping[str, Any], version: str | None) -> str:
    """The flaw for which the library will refuse a list of tools; "" for none."""
    try:
        if version is not None:
            with suppress(KeyError):  # A version without rules of its own.
                validate_server_result("tools/list", version, result)
        types.ListToolsResult.model_validate(result, by_name=False)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"] if step not in ("tools", 0))
        return f"{place}: {first['msg']}"
    return ""
