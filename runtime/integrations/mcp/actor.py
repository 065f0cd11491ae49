"""The actor of an MCP server: it holds the connections to the server for all agents of a deployment.

It may be lost at any time. Calls that are under way are sent again then, with the same id, which the server gets with each call.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TypeVar

from actors.actor import Actor, Handlers
from actors.errors import DefinitionError, McpServerError
from actors.layers.mcp.messages import CallMcpTool, ListMcpTools, McpResult, McpServer, McpToolInfo, McpToolList, StopMcpCall
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.rules.backoff import Backoff
from runtime.integrations.mcp.link import ConnectionGoneError, ServerLink

Connect = Callable[[McpServer, Mapping[str, str], Callable[[], None], float | None], ServerLink]
"""Makes a connection that is yet to be opened: of the server, headers, what to call when its tools change, and `idle_s`."""


def connect(server: McpServer, headers: Mapping[str, str], on_change: Callable[[], None], idle_s: float | None) -> ServerLink:
    """Make a connection with the library for MCP, which is imported now. Raises DefinitionError when it is missing."""
    try:
        from runtime.integrations.mcp.connection import McpConnection
    except ModuleNotFoundError as error:
        raise DefinitionError(
            f"McpTools {server.name!r} needs the package {error.name!r} where the actor of the server runs: "
            "pip install 'raygrove[mcp]'"
        ) from error
    return McpConnection(server, headers, on_change, idle_s)


logger = logging.getLogger(__name__)

T = TypeVar("T")

CONNECTING = Backoff(0.2, 2.0)
"""Waits between attempts to connect."""

CONNECT_TO_LIST_S = 2.0
"""How long an agent that has an old list of tools waits for a server that is away."""

IDLE_S = 300.0
"""A connection of one session is closed when it was not used for so long."""

KEPT_IDLE = 256
"""Sessions whose connections are closed, and of which the tools are still known, at least."""

RETRY_LIST_S = 5.0
"""How long an old list of tools is used before a server that did not answer is asked again."""


class _Shared:
    """What sessions with the same connection share.

    Attributes:
        link: the connection; None before the first.
        opening: connects; callers share it.
        listing: held while the server is asked for its tools.
        tools: its tools, as a reply; None before they were asked for, or when they have changed.
        old_tools: the last ones.
        asked_s: when they are to count as asked for.
        requests: how many are under way.
    """

    def __init__(self) -> None:
        self.link: ServerLink | None = None
        self.opening: asyncio.Task[ServerLink] | None = None
        self.listing = asyncio.Lock()
        self.tools: McpToolList | None = None
        self.old_tools: McpToolList | None = None
        self.asked_s = 0.0
        self.requests = 0

    @property
    def is_used(self) -> bool:
        """The connection is open, or wanted."""
        return self.requests > 0 or (self.link is not None and self.link.is_open)

    def forget_tools(self) -> None:
        """They have changed."""
        self.tools = None


class McpActor(Actor):
    """Holds connections to a server: one for all, or for each session one, and one for each set of headers.

    Args:
        name: for messages and statistics.
    """

    def __init__(self, server: McpServer, name: str = "mcp", connect: Connect = connect) -> None:
        super().__init__(name)
        self._server = server
        self._connect = connect
        self._shared: dict[tuple[object, ...], _Shared] = {}
        self._most_shared = KEPT_IDLE
        self._under_way: dict[str, asyncio.Task[McpResult]] = {}
        self._counts = {"connections": 0, "calls": 0, "repeated": 0, "lists": 0}

    def handlers(self) -> Handlers:
        """The messages that the actor takes."""
        return {
            ListMcpTools: self.list_tools,
            CallMcpTool: self.call,
            StopMcpCall: self.stop_call,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    async def list_tools(self, message: ListMcpTools) -> McpToolList:
        """Return the tools, from memory as long as they are good.

        Raises:
            McpServerError: the server does not answer, and has not before.
            DefinitionError: the server cannot be started or reached the way it is defined.
        """
        with self._shared_by(message) as shared:
            return await self._listed(shared, message)

    async def _listed(self, shared: _Shared, message: ListMcpTools) -> McpToolList:
        async with shared.listing:
            if shared.tools is None or _now_s() - shared.asked_s > self._server.cache_s:
                await self._ask_for_tools(shared, message.headers)
            listed = shared.tools or shared.old_tools
        assert listed is not None
        return McpToolList(version=listed.version) if message.known == listed.version else listed

    async def _ask_for_tools(self, shared: _Shared, headers: Mapping[str, str]) -> None:
        self._counts["lists"] += 1
        shared.asked_s = _now_s()
        try:
            if shared.old_tools is not None:
                async with asyncio.timeout(CONNECT_TO_LIST_S):
                    await self._open_link(shared, headers)
            tools = await self._in_time(lambda: self._over_link(shared, headers, lambda link: link.list_tools()))
        except (McpServerError, TimeoutError) as error:
            if shared.old_tools is None:
                raise
            logger.warning("the tools of %s are those from before: %s", self.name, str(error) or "it is away")
            shared.tools = shared.old_tools
            shared.asked_s = _now_s() - self._server.cache_s + min(RETRY_LIST_S, self._server.cache_s)
            return
        shared.tools = shared.old_tools = McpToolList(version=_version(tools), tools=tools)

    async def call(self, message: CallMcpTool) -> McpResult:
        """Call a tool; once more over a new connection when the connection is lost.

        Raises:
            McpServerError: the server gives no answer.
            McpToolError: the user's answer to a question of the tool cannot be used.
            DefinitionError: see `list_tools`.
        """
        self._counts["calls"] += 1
        with self._shared_by(message) as shared:
            return await self._called(shared, message)

    async def _called(self, shared: _Shared, message: CallMcpTool) -> McpResult:
        calling = asyncio.create_task(
            self._in_time(lambda: self._over_link(shared, message.headers, lambda link: link.call(message)))
        )
        self._under_way[message.call_id] = calling
        try:
            await asyncio.wait([calling])
        finally:
            calling.cancel()
            if self._under_way.get(message.call_id) is calling:
                del self._under_way[message.call_id]
        if calling.cancelled():
            raise McpServerError(self._server.name, "the call was stopped")
        return calling.result()

    async def stop_call(self, message: StopMcpCall) -> p.Ack:
        """Stop a call, and tell its server. Nothing happens when it is over."""
        calling = self._under_way.get(message.call_id)
        if calling is not None:
            calling.cancel()
        return p.Ack()

    async def _in_time(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._server.timeout_s):
                return await work()
        except TimeoutError as error:
            raise McpServerError(self._server.name, f"there was no answer within {self._server.timeout_s:g} s") from error

    async def _over_link(self, shared: _Shared, headers: Mapping[str, str], ask: Callable[[ServerLink], Awaitable[T]]) -> T:
        """Ask over a connection that is open, and once more over a new one."""
        try:
            return await self._asked(shared, headers, ask)
        except ConnectionGoneError as error:
            logger.info("the connection of %s is lost, and what was asked is asked again: %s", self.name, error)
        self._counts["repeated"] += 1
        try:
            return await self._asked(shared, headers, ask)
        except ConnectionGoneError as error:
            raise McpServerError(self._server.name, f"the connection was lost twice: {error}") from error

    async def _asked(self, shared: _Shared, headers: Mapping[str, str], ask: Callable[[ServerLink], Awaitable[T]]) -> T:
        link = await self._open_link(shared, headers)
        try:
            return await ask(link)
        except ConnectionGoneError:
            if shared.link is link:
                shared.link = None
                link.retire()
            raise

    async def _open_link(self, shared: _Shared, headers: Mapping[str, str]) -> ServerLink:
        if shared.link is not None and shared.link.is_open:
            return shared.link
        if shared.opening is None or shared.opening.done():
            shared.opening = asyncio.create_task(self._new_link(shared, headers))
            # Its callers may have given up by its end.
            shared.opening.add_done_callback(lambda opening: opening.cancelled() or opening.exception())
        # Shielded, since other calls wait for it as well.
        return await asyncio.shield(shared.opening)

    async def _new_link(self, shared: _Shared, headers: Mapping[str, str]) -> ServerLink:
        own = bool(headers) or self._server.scope == "session"
        given_up_s = _now_s() + self._server.connect_timeout_s
        for attempt in count(1):
            link = self._connect(self._server, headers, shared.forget_tools, IDLE_S if own else None)
            try:
                await link.open()
            except ConnectionGoneError as error:
                wait_s = CONNECTING.after_attempts(attempt)
                if _now_s() + wait_s > given_up_s:
                    raise McpServerError(self._server.name, f"it cannot be reached: {error}") from error
                await asyncio.sleep(wait_s)
                continue
            self._counts["connections"] += 1
            shared.link = link
            # A server that was started again may have other tools.
            shared.forget_tools()
            return link
        raise AssertionError("counted to the end")

    @contextmanager
    def _shared_by(self, message: ListMcpTools | CallMcpTool) -> Iterator[_Shared]:
        session = message.session if self._server.scope == "session" else None
        key = (session, *sorted(message.headers.items()))
        shared = self._shared.get(key)
        if shared is None:
            if len(self._shared) >= self._most_shared:
                self._forget_idle()
            shared = self._shared[key] = _Shared()
        shared.requests += 1
        try:
            yield shared
        finally:
            shared.requests -= 1

    def _forget_idle(self) -> None:
        """Drop what is known of sessions whose connections are closed: a deployment has any number of them in its life."""
        self._shared = {key: shared for key, shared in self._shared.items() if shared.is_used}
        self._most_shared = 2 * len(self._shared) + KEPT_IDLE

    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Return how many connections are open and were made, and figures of calls and lists."""
        links = [shared.link for shared in self._shared.values()]
        is_open = sum(link is not None and link.is_open for link in links)
        return p.Statistics(
            actor=self.name, pid=os.getpid(), counts={**self._counts, "open": is_open}, connections=self.connections()
        )

    async def stop(self, _: p.Stop) -> p.Ack:
        """Close the connections, and end the servers that were started."""
        everything, self._shared = list(self._shared.values()), {}
        opening = [shared.opening for shared in everything if shared.opening is not None and not shared.opening.done()]
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        await asyncio.gather(*(shared.link.close() for shared in everything if shared.link is not None))
        return p.Ack()


def _version(tools: Sequence[McpToolInfo]) -> str:
    """Names a list, also in an actor that was started again."""
    return hashlib.sha256(encode(tools)).hexdigest()[:16]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
