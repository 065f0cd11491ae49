"""A connection to an MCP server as its actor needs it, and the task that owns one.

The library's connections have to be closed by the task that has opened them. So each has a task that owns it: that task opens it,
takes commands from a queue, runs each in a task of its own, and closes it. What goes wrong in there reaches callers as an error,
never as a cancellation, which would look like the end of their own run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

from actors.errors import RaygroveError
from actors.layers.mcp.messages import CallMcpTool, McpResult, McpToolInfo

logger = logging.getLogger(__name__)


class ConnectionGoneError(Exception):
    """A connection to a server could not be made, or is lost. What was asked over it may be asked again over another one."""


class ServerLink(Protocol):
    """A connection to a server."""

    @property
    def is_open(self) -> bool:
        """Whether it takes commands."""
        ...

    async def open(self) -> None:
        """Connect. Raises ConnectionGoneError, McpServerError when trying again is of no use, DefinitionError."""
        ...

    def retire(self) -> None:
        """Take no more commands, and disconnect when those under way are over."""
        ...

    async def close(self) -> None:
        """Disconnect, and end a server that was started."""
        ...

    async def list_tools(self) -> Sequence[McpToolInfo]:
        """Ask for all tools. Raises ConnectionGoneError, McpServerError."""
        ...

    async def call(self, message: CallMcpTool) -> McpResult:
        """Call a tool. Raises ConnectionGoneError, McpServerError, McpToolError."""
        ...


C = TypeVar("C")
T = TypeVar("T")


class Owner(Generic[C]):
    """Opens a connection, runs commands on it, and closes it.

    Args:
        connected: opens and closes it.
        beside: runs for as long as it is open.
        as_error: what callers get for what a command has raised.
        idle_s: without a command for so long it is closed; None: it stays.
    """

    def __init__(
        self,
        connected: Callable[[], AbstractAsyncContextManager[C]],
        beside: Callable[[C], Awaitable[None]],
        as_error: Callable[[BaseException], Exception],
        idle_s: float | None = None,
    ) -> None:
        self._connected = connected
        self._beside = beside
        self._as_error = as_error
        self._idle_s = idle_s
        self._commands: asyncio.Queue[Callable[[C], Awaitable[None]] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._is_retired = False

    @property
    def is_open(self) -> bool:
        """Whether it takes commands."""
        return self._task is not None and not self._task.done() and not self._is_retired

    async def open(self) -> None:
        """Connect. Raises ConnectionGoneError, and an error of this project as it is."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(opened))
        try:
            await asyncio.shield(opened)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    def retire(self) -> None:
        """Take no more commands, and close when those under way are over."""
        self._is_retired = True
        self._commands.put_nowait(None)

    async def close(self) -> None:
        """Close. Commands that are under way fail."""
        if self._task is not None:
            self._is_retired = False
            self._commands.put_nowait(None)
            await asyncio.wait([self._task])

    async def do(self, work: Callable[[C], Awaitable[T]]) -> T:
        """Run something on the connection. Raises ConnectionGoneError when it is no more, and what `as_error` gives."""
        if not self.is_open or self._task is None:
            raise ConnectionGoneError("the connection is closed")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._commands.put_nowait(lambda connection: self._run(work(connection), done))
        either: list[asyncio.Future[Any]] = [done, self._task]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            done.cancel()
            raise
        if not done.done():
            done.set_exception(ConnectionGoneError("the connection was closed"))
        return done.result()

    async def _run(self, work: Awaitable[T], done: asyncio.Future[T]) -> None:
        """Run one command, which ends when its caller waits no more."""
        task = asyncio.ensure_future(work)
        done.add_done_callback(lambda _: task.cancel())
        try:
            result = await task
        except BaseException as error:  # The border to the library: the caller hears of every end.
            task.cancel()
            if not done.done():
                done.set_exception(self._as_error(error))
        else:
            if not done.done():
                done.set_result(result)

    async def _own(self, opened: asyncio.Future[None]) -> None:
        """Open the connection, run commands, and close it: all in one task."""
        try:
            async with self._connected() as connection:
                opened.set_result(None)
                await self._serve(connection)
        except BaseException as error:  # The border to the library, which ends its tasks in several ways.
            if not opened.done():
                opened.set_exception(error if isinstance(error, RaygroveError) else ConnectionGoneError(reason(error)))
            elif isinstance(error, asyncio.CancelledError):
                raise
            else:
                logger.debug("a connection has ended: %s", reason(error))

    async def _serve(self, connection: C) -> None:
        tasks: set[asyncio.Future[None]] = set()
        beside = asyncio.ensure_future(self._beside(connection))
        try:
            while True:
                try:
                    async with asyncio.timeout(self._idle_s):
                        command = await self._commands.get()
                except TimeoutError:
                    if tasks:
                        continue
                    return
                if command is None:
                    if self._is_retired and tasks:
                        await asyncio.wait(tasks)
                    return
                task = asyncio.ensure_future(command(connection))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        finally:
            left = [*tasks, beside]
            for each in left:
                each.cancel()
            await asyncio.wait(left)


def reason(error: BaseException) -> str:
    """Why something has ended: the first error inside of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".removesuffix(": ")
