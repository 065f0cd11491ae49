"""The tools of an MCP server, as an agent has them in its `tools`, and the clients that ask the actors of servers."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from actors.definitions.tools.base import Tool, Toolset
from actors.definitions.tools.context import ReadonlyContext, ToolContext
from actors.errors import ActorLostError, DefinitionError, McpServerError, McpToolError, RaygroveError
from actors.errors.hints import explains_wrong_calls
from actors.layers.mcp.messages import (
    CallMcpTool,
    ListMcpTools,
    McpResult,
    McpScope,
    McpServer,
    McpToolInfo,
    McpToolList,
    StopMcpCall,
)
from actors.messages.content import Part
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import FunctionDeclaration
from actors.messages.protocol.base import Message, Request
from actors.messages.session import SessionKey
from actors.refs import Ref
from actors.rules.checks.ids import safe_names
from actors.rules.eviction import LruDict

Headers = Mapping[str, str] | Callable[[ReadonlyContext], Any]
"""Headers of requests, or a function, sync or async, that gives those of a session."""

Confirmation = bool | Collection[str] | Callable[[str, JsonObject], Any]
"""Which calls need the user's consent: all, none, those of tools with these names, or those for which a function says so."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,31}")


class McpTools(Toolset):
    """The tools of an MCP server.

    The deployment has one actor for the server, `<app>/mcp/<name>`, which starts when the first agent that has the tools runs.
    It holds the connection for all agents. Definitions hold data only: nothing is connected before.

    Args:
        name: names the server in the deployment; two servers cannot have the same.
        command: starts a server that speaks over its standard input and output, such as `["npx", "server"]`.
        url: of a server that speaks streamable HTTP, instead of a command.
        env: environment variables for the command. `${NAME}` in a value stands for a variable of the actor's process.
        cwd: the folder in which the command runs; by default that of the actor's process.
        headers: of requests to the `url`; `${NAME}` as in `env`. A function is given a ReadonlyContext, and its headers are those
            of the session.
        tools: the tools to have, by name or pattern, such as `["read_*"]`; by default all.
        prefix: begins the names that models see; default none.
        require_confirmation: True, names or patterns of tools as the server calls them, or a function of the tool's name and the
            arguments that is true for calls to which the user has to agree; default False.
        timeout_s: how long a call may take, connecting included; default 60.
        connect_timeout_s: how long a server that cannot be reached, such as one that is being started again, is tried before the
            calls that wait for it fail; 0 tries once; default 10.
        cache_s: how long the list of tools is good, unless the server says that it has changed; default 300.
        scope: "app" shares a connection among all sessions, "session" gives each session its own; default "app".

    Raises:
        DefinitionError: an argument is wrong.
    """

    per_run = True
    searchable = True

    @explains_wrong_calls
    def __init__(
        self,
        *,
        name: str,
        command: Sequence[str] = (),
        url: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        headers: Headers | None = None,
        tools: Collection[str] | None = None,
        prefix: str = "",
        require_confirmation: Confirmation = False,
        timeout_s: float = 60.0,
        connect_timeout_s: float = 10.0,
        cache_s: float = 300.0,
        scope: McpScope = "app",
    ) -> None:
        _check(name, command, url, prefix, scope)
        for what, patterns in (("tools", tools), ("require_confirmation", require_confirmation)):
            if isinstance(patterns, str):
                raise DefinitionError(f"McpTools {name!r}: {what} is a list of names or patterns, such as [{patterns!r}]")
        if timeout_s <= 0 or connect_timeout_s < 0 or cache_s < 0:
            raise DefinitionError(
                f"McpTools {name!r}: timeout_s has to be above 0, and connect_timeout_s and cache_s 0 or more, "
                f"not {timeout_s:g}, {connect_timeout_s:g} and {cache_s:g}"
            )
        if headers and not url:
            raise DefinitionError(f"McpTools {name!r}: headers go with a url; a command is given `env`")
        self.name = name
        self.prefix = prefix
        self.require_confirmation = require_confirmation
        self._headers = headers if callable(headers) else None
        self._wanted = tuple(tools) if tools is not None else ("*",)
        self.server = McpServer(
            name=name,
            command=tuple(command),
            url=url,
            env=dict(env or {}),
            cwd=cwd,
            headers={} if headers is None or callable(headers) else dict(headers),
            timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            cache_s=cache_s,
            scope=scope,
        )

    def __repr__(self) -> str:
        return f"McpTools(name={self.name!r})"

    async def tools(self, context: ReadonlyContext) -> Sequence[McpTool]:
        """Ask the server for its tools, and take those that are wanted.

        Raises:
            McpServerError: the server cannot be reached.
            DefinitionError: `headers` gives no headers, another server has the name, or the library for MCP is missing.
        """
        infos = await reached(context, self.name).list_tools(
            self.server, context.session_key, await self.session_headers(context)
        )
        wanted = [info for info in infos if any(fnmatchcase(info.name, pattern) for pattern in self._wanted)]
        names = safe_names(self.prefix + info.name for info in wanted)
        return [McpTool(self, info, name) for info, name in zip(wanted, names, strict=True)]

    async def session_headers(self, context: ReadonlyContext) -> dict[str, str]:
        """The headers of the session's requests. Raises DefinitionError, and what the user's function raises."""
        if self._headers is None:
            return {}
        given = self._headers(context)
        if inspect.isawaitable(given):
            given = await given
        if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
            raise DefinitionError(f"McpTools {self.name!r}: headers gives a dictionary of texts, not {type(given).__name__}")
        return dict(given)

    def may_need_consent(self, tool: str) -> bool:
        """Whether some call of a tool may need the user's consent."""
        wanted = self.require_confirmation
        if isinstance(wanted, bool) or callable(wanted):
            return bool(wanted)
        return any(fnmatchcase(tool, pattern) for pattern in wanted)


def _check(name: str, command: Sequence[str], url: str, prefix: str, scope: str) -> None:
    if not _NAME.fullmatch(name):
        raise DefinitionError(f"McpTools: the name {name!r} has to be of letters, digits, '_', '-' and '.', at most 64")
    if isinstance(command, str):
        raise DefinitionError(f"McpTools {name!r}: command is a list, such as {command.split()!r}")
    if bool(command) == bool(url):
        raise DefinitionError(f"McpTools {name!r}: give either a command or a url")
    if url and not url.startswith(("http://", "https://")):
        raise DefinitionError(f"McpTools {name!r}: the url begins with http:// or https://, not {url[:40]!r}")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise DefinitionError(f"McpTools {name!r}: the prefix {prefix!r} cannot begin the name of a tool")
    if scope not in ("app", "session"):
        raise DefinitionError(f"McpTools {name!r}: scope is 'app' or 'session', not {scope!r}")


class McpTool(Tool):
    """A tool of an MCP server."""

    def __init__(self, source: McpTools, info: McpToolInfo, name: str) -> None:
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
        says = self._source.require_confirmation
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
