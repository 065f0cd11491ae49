"""A connection to an MCP server, by the library `mcp`, which only this module and those below it import."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from actors.errors import DefinitionError, McpServerError, RaygroveError
from actors.layers.mcp.messages import CallMcpTool, McpResult, McpServer, McpToolInfo
from actors.messages.content import Blob, Part
from actors.messages.json_types import JsonObject
from actors.rules.backoff import Backoff
from runtime.integrations.mcp.answers import Answers, Given, given_answers, question_for
from runtime.integrations.mcp.delivery import WatchedClient, delivery
from runtime.integrations.mcp.link import ConnectionGoneError, Owner, reason
from runtime.integrations.mcp.server_messages import mended_messages


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


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def filled_in(server: str, values: Mapping[str, str]) -> dict[str, str]:
    """The values, with the variables of this process's environment in place of `${NAME}`.

    Raises:
        DefinitionError: a variable is not set.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise DefinitionError(
                f"McpTools {server!r} names ${{{name}}}, which is not set where the actor of the server runs: "
                f"set it there, or give it with Settings(env={{{name!r}: …}})"
            )
        return os.environ[name]

    return {name: _VARIABLE.sub(value, text) for name, text in values.items()}


logger = logging.getLogger(__name__)

T = TypeVar("T")

CALL_ID = "raygrove/function_call_id"
"""The key in `_meta` under which a server finds the id of the function call, by which it recognises one that is made again."""

MAX_ROUNDS = 20
"""How often a server may want more for one call before it is given up."""

_RELISTEN = Backoff(1.0, 60.0)
_UNKNOWN_STATE = (types.INVALID_PARAMS, types.INVALID_REQUEST)
"""What a server that was started again says to a state that it does not know any more."""

_LOST = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError, httpx2.HTTPError)


class _Call:
    """A call that is under way.

    Attributes:
        answers: those that it has not used.
        asked: gets what the server asks in the middle of it, when there is no answer.
        ended: set when the request is over.
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()


class McpConnection:
    """Implements `runtime.integrations.mcp.link.ServerLink` with the library.

    Args:
        headers: of the requests, beside those of the server.
        on_change: called when the server says that its tools have changed.
        idle_s: without a command for so long the connection is closed; None: it stays.
    """

    def __init__(
        self, server: McpServer, headers: Mapping[str, str], on_change: Callable[[], None], idle_s: float | None = None
    ) -> None:
        self._server = server
        self._headers = headers
        self._on_change = on_change
        self._owner = Owner(self._client, self._listen, self._as_error, idle_s)
        # Servers of older revisions ask in the middle of a call, and do not say of which.
        self._asks_in_calls = False
        self._under_way: list[_Call] = []
        self._asking = 0
        self._changed = asyncio.Condition()

    @property
    def is_open(self) -> bool:
        """Whether it takes commands."""
        return self._owner.is_open

    async def open(self) -> None:
        """Connect. Raises ConnectionGoneError, McpServerError, DefinitionError."""
        await self._owner.open()

    def retire(self) -> None:
        """Take no more commands, and disconnect when those under way are over."""
        self._owner.retire()

    async def close(self) -> None:
        """Disconnect, and end a server that was started. Commands that are under way fail."""
        await self._owner.close()

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        """A client that is connected."""
        server = self._server
        async with AsyncExitStack() as stack:
            transport: Any
            if server.command:
                command, *args = server.command
                if (os.sep not in command or os.path.isabs(command)) and shutil.which(command) is None:
                    raise DefinitionError(
                        f"McpTools {server.name!r}: there is no command {command!r} where the actor of the server runs"
                    )
                parameters = StdioServerParameters(
                    command=command, args=args, env=filled_in(server.name, server.env), cwd=server.cwd
                )
                # What a server writes there belongs to the log of the process; its `sys.stderr` may be no file.
                errors = stack.enter_context(open(2, "w", closefd=False))  # noqa: ASYNC230, SIM115
                transport = stdio_client(parameters, errors)
            else:
                headers = {**filled_in(server.name, server.headers), **self._headers}
                timeout = httpx2.Timeout(30.0, read=max(server.timeout_s, 300.0))
                http = await stack.enter_async_context(WatchedClient(headers=headers, timeout=timeout))
                transport = streamable_http_client(server.url, http_client=http)
            mended = mended_messages(transport, server.name, lambda: _version(client))
            client = Client(mended, elicitation_callback=self._elicit, message_handler=self._notified, cache=None)
            yield await _connected(client, server.name, stack)

    async def _notified(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    async def _listen(self, client: Client) -> None:
        """Hear of changed tools from a server of the revision that has subscriptions."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not _tells_changes(client):
            return
        failed = 0
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    failed = 0
                    async for _ in events:
                        self._on_change()
            except Exception:
                logger.debug("MCP server %r does not tell of changes at present", self._server.name, exc_info=True)
            failed += 1
            await asyncio.sleep(_RELISTEN.after_attempts(failed))

    def _as_error(self, error: BaseException) -> Exception:
        """The error for callers, out of one that the library has raised."""
        if isinstance(error, MCPError):
            return McpServerError(self._server.name, f"{error.message} (code {error.code})")
        if isinstance(error, (*_LOST, asyncio.CancelledError)):
            return ConnectionGoneError(reason(error))
        return (
            error if isinstance(error, (RaygroveError, ConnectionGoneError)) else McpServerError(self._server.name, reason(error))
        )

    async def list_tools(self) -> Sequence[McpToolInfo]:
        """Ask for all tools. Raises ConnectionGoneError, McpServerError."""
        return await self._owner.do(lambda client: self._delivered(client, _all_tools(client)))

    async def call(self, message: CallMcpTool) -> McpResult:
        """Call a tool. Raises ConnectionGoneError, McpServerError, McpToolError."""
        given = given_answers(message.tool, message.memo, message.answer)
        return await self._owner.do(lambda client: self._delivered(client, self._call(client, message, given)))

    async def _delivered(self, client: Client, asked: Awaitable[T]) -> T:
        """The answer of the server. Raises ConnectionGoneError when no answer can come, and MCPError for an error that is one."""
        with delivery() as delivered:
            try:
                return await asked
            except MCPError as error:
                is_gone = delivered.is_lost or (delivered.is_doubtful and await _is_unknown_session(client))
                if is_gone or (error.code == types.CONNECTION_CLOSED and await self._is_closed(client)):
                    raise ConnectionGoneError(reason(error)) from error
                if delivered.refusal:
                    raise McpServerError(self._server.name, delivered.refusal) from error
                raise

    async def _is_closed(self, client: Client) -> bool:
        """True if a server that was started has ended. A tool may answer with the code that the library has for that."""
        if not self._server.command:
            return False
        try:
            await client.session.send_ping()
        except MCPError as error:
            return error.code == types.CONNECTION_CLOSED
        return False

    async def _call(self, client: Client, message: CallMcpTool, given: Given) -> McpResult:
        call = _Call(Answers(given.known))
        async with self._changed:
            await self._changed.wait_for(lambda: not (self._asks_in_calls and self._under_way))
            self._under_way.append(call)
        try:
            return await self._rounds(client, message, given, call)
        finally:
            call.ended.set()
            self._under_way.remove(call)
            async with self._changed:
                self._changed.notify_all()

    async def _rounds(self, client: Client, message: CallMcpTool, given: Given, call: _Call) -> McpResult:
        """Call until the server has a result, or asks something to which there is no answer."""
        responses: Mapping[str, JsonObject] = given.newest if given.state is not None else {}
        state = given.state
        if state is not None:
            # Used by what is sent along first.
            call.answers = Answers([])
        for _ in range(MAX_ROUNDS):
            try:
                result = await self._send(client, message, call, responses, state)
            except MCPError as error:
                if error.code == types.URL_ELICITATION_REQUIRED:
                    return _visits(error, given, call.answers)
                if state is None or error.code not in _UNKNOWN_STATE:
                    raise
                # A server that was started again may not know its own state any more: the call begins anew.
                responses, state, call.answers = {}, None, Answers(given.known)
                continue
            if isinstance(result, dict):
                asked = {"question": result}
                return McpResult(question=question_for(asked), memo=given.memo(asked, None))
            if isinstance(result, types.CallToolResult):
                return result_of(result)
            asked = {key: self._question(request) for key, request in (result.input_requests or {}).items()}
            answers = {key: call.answers.take_answer(question) for key, question in asked.items()}
            if None in answers.values():
                return McpResult(question=question_for(asked), memo=given.memo(asked, result.request_state))
            responses, state = {key: answer for key, answer in answers.items() if answer is not None}, result.request_state
        raise McpServerError(self._server.name, f"{message.tool} wants more and more: given up after {MAX_ROUNDS} rounds")

    async def _send(
        self, client: Client, message: CallMcpTool, call: _Call, responses: Mapping[str, JsonObject], state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult | JsonObject:
        """One request; what the server asks in the middle of it, if there is no answer."""
        given: types.InputResponses = {key: types.ElicitResult.model_validate(answer) for key, answer in responses.items()}
        request = asyncio.ensure_future(
            client.session.call_tool(
                message.tool,
                message.args,
                input_responses=given or None,
                request_state=state,
                meta=cast(types.RequestParamsMeta, {CALL_ID: message.call_id}),
                allow_input_required=True,
            )
        )
        try:
            either: list[asyncio.Future[Any]] = [request, call.asked]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not request.done():
                # The server learns of it, and stops its work.
                request.cancel()
                await asyncio.wait([request])
        return call.asked.result() if call.asked.done() else request.result()

    async def _elicit(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Answer what a server of an older revision asks while a call is open; without an answer the call is ended."""
        question = question_of(params)
        call = await self._asking_call()
        if call is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="no call is under way for which a user could be asked")
        answer = call.answers.take_answer(question)
        if answer is not None:
            return types.ElicitResult.model_validate(answer)
        if not call.asked.done():
            call.asked.set_result(question)
        await call.ended.wait()
        return types.ErrorData(code=types.INVALID_REQUEST, message="the user is asked: the call is made again with the answer")

    async def _asking_call(self) -> _Call | None:
        """The call in whose middle the server asks. It does not say which: so the others have to be over first.

        From then on the connection has one call at a time.
        """
        self._asks_in_calls = True
        async with self._changed:
            self._asking += 1
            try:
                await self._changed.wait_for(lambda: len(self._silent()) <= self._asking)
                silent = self._silent()
            finally:
                self._asking -= 1
            return silent[0] if silent else None

    def _silent(self) -> list[_Call]:
        return [call for call in self._under_way if not call.asked.done()]

    def _question(self, request: types.InputRequest) -> JsonObject:
        if isinstance(request, types.ElicitRequest):
            return question_of(request.params)
        raise McpServerError(self._server.name, f"it asks for {request.method}, which is not supported")


async def _connected(client: Client, server: str, stack: AsyncExitStack) -> Client:
    """Connect. Raises McpServerError when trying again is of no use, else what the library raises."""
    with delivery() as delivered:
        try:
            return await stack.enter_async_context(client)
        except Exception as error:
            if delivered.refusal:
                raise McpServerError(server, delivered.refusal) from error
            raise


async def _is_unknown_session(client: Client) -> bool:
    """True if the server answers nothing in the session. Its error for that may look like that of a tool."""
    with delivery() as pinged:
        try:
            await client.session.send_ping()
        except MCPError:
            return pinged.is_lost or pinged.is_doubtful
    return False


def _version(client: Client) -> str | None:
    """The protocol's version that was agreed on; None while connecting."""
    with suppress(RuntimeError):
        return client.session.protocol_version
    return None


def _tells_changes(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def _all_tools(client: Client) -> Sequence[McpToolInfo]:
    found: list[McpToolInfo] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += map(tool_info, page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return found


def _visits(error: MCPError, given: Given, answers: Answers) -> McpResult:
    """The result of a call for which the user has to visit pages first."""
    asked = pages_of(error.data)
    refused = [answer for page in asked.values() if (answer := answers.take_answer(page)) and answer["action"] != "accept"]
    if refused or not asked:
        return McpResult(parts=[Part(text="the user declined to visit the page that it needs")], is_error=True)
    return McpResult(question=question_for(asked), memo=given.memo(asked, None))
