"""Asks the actors of MCP servers, and remembers in each process the servers' lists of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from actors.definitions.tools.context import ReadonlyContext
from actors.errors import ActorLostError, McpServerError, RaygroveError
from actors.layers.mcp.messages import CallMcpTool, ListMcpTools, McpResult, McpServer, McpToolInfo, McpToolList, StopMcpCall
from actors.messages.protocol.base import Message
from actors.messages.protocol.request import Request
from actors.messages.session import SessionKey
from actors.refs import Ref
from actors.rules.capacity.eviction import LruDict

M = TypeVar("M", bound=Message)

MAX_LISTS = 1_000
"""Lists of tools that a process remembers: with headers of their own, sessions may have lists of their own."""

STOP_CALL_S = 0.3
"""How long a cancelled run may take to have a call stopped."""


def reached(context: ReadonlyContext, server: str) -> McpServers:
    """The MCP servers, for a tool of one of them. Raises McpServerError outside of a deployment."""
    servers = context.reach(McpServers)
    if servers is None:
        raise McpServerError(
            server, "no MCP server can be reached from here: its tools are those of agents that run in a deployment"
        )
    return servers


class McpServers:
    """The MCP servers, for the agents of one process.

    Args:
        find: gives a client of a server's actor, which is started if need be. It is asked again when that is lost.
    """

    def __init__(self, find: Callable[[McpServer], Awaitable[Ref]]) -> None:
        self._find = find
        self._refs: dict[str, tuple[McpServer, Ref]] = {}
        self._lists: LruDict[tuple[str, SessionKey | None, tuple[tuple[str, str], ...]], McpToolList] = LruDict(MAX_LISTS)

    async def list_tools(self, server: McpServer, session: SessionKey, headers: dict[str, str]) -> Sequence[McpToolInfo]:
        """The tools of a server.

        Args:
            session: for which they are asked.
            headers: of this session's requests.

        Raises:
            McpServerError: the server cannot be reached.
            DefinitionError: another server has the name, or the library for MCP is missing.
        """
        key = (server.name, session if server.scope == "session" else None, tuple(sorted(headers.items())))
        known = self._lists.get(key)
        version = known.version if known is not None else ""
        message = ListMcpTools(session=session, headers=headers, known=version)
        listed = await self._ask(server, message)
        if listed.tools is None and known is not None:
            return known.tools or ()
        self._lists[key] = listed
        return listed.tools or ()

    async def call_tool(self, server: McpServer, message: CallMcpTool) -> McpResult:
        """Call a tool of a server. Raises as `list_tools` does."""
        try:
            return await self._ask(server, message)
        except asyncio.CancelledError:
            await self._stop_call(server, message.call_id)
            raise

    async def _stop_call(self, server: McpServer, call_id: str) -> None:
        """Tell the server's actor that nothing waits for a call any more. A run that is cancelled has little time for it."""
        known = self._refs.get(server.name)
        if known is not None:
            with suppress(RaygroveError, TimeoutError):
                async with asyncio.timeout(STOP_CALL_S):
                    await known[1].ask(StopMcpCall(call_id=call_id))

    async def _ask(self, server: McpServer, message: Request[M]) -> M:
        """Ask a server's actor, and once more another one when it is lost."""
        try:
            return await (await self._ref(server)).ask(message)
        except ActorLostError:
            self._refs.pop(server.name, None)
        try:
            return await (await self._ref(server)).ask(message)
        except ActorLostError as error:
            raise McpServerError(server.name, str(error)) from error

    async def _ref(self, server: McpServer) -> Ref:
        known = self._refs.get(server.name)
        # An engine that is asked for two servers of the same name says what is wrong.
        if known is None or known[0] != server:
            known = self._refs[server.name] = server, await self._find(server)
        return known[1]
