"""The operations of an HTTP API as tools: what a model sends, and what it gets of an answer."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import json
import mimetypes
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from actors.definitions.tools.base import Tool, Toolset
from actors.definitions.tools.context import ReadonlyContext, ToolContext
from actors.definitions.tools.function import without_unknown
from actors.errors import DefinitionError
from actors.errors.hints import did_you_mean, explains_wrong_calls, some_of
from actors.messages.content import Blob, Part
from actors.messages.json_types import JsonObject
from actors.messages.llm import FunctionDeclaration
from runtime.integrations.openapi import auth as credentials
from runtime.integrations.openapi import document as documents
from runtime.integrations.openapi.auth import check_servers, checked_servers
from runtime.integrations.openapi.operations import Operation, operations, server_url
from runtime.integrations.openapi.wire import WireRequest, known_arguments, request_of

if TYPE_CHECKING:
    from runtime.integrations.openapi.client import Files, HttpAnswer

if TYPE_CHECKING:
    from runtime.integrations.openapi.client import Client


MAX_PREFIX = 32
MAX_NAMED = 20
"""Operations that an error names."""

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024

Confirm = bool | str | Sequence[str] | Callable[[Tool, JsonObject, ToolContext], Any]


class OpenApiTools(Toolset):
    """Stands in an agent's `tools` for the operations of an API that an OpenAPI document describes.

    A tool is called as the operation's `operationId`. What the server answers is its result, `{"status": …, "body": …}`; an error
    of the server or of the connection is the result too, with `error`. Data that is no text becomes an artifact, and a model
    sends data by the name of an artifact.

    Args:
        spec: the document: a dictionary, the path of a file in JSON or YAML, or a URL, which is fetched when an agent first runs.
        server: the URL of the API; by default the document's first server.
        server_variables: values of variables in that server's URL.
        auth: BearerAuth, BasicAuth or ApiKeyAuth, a list of them, or a function of the call's ToolContext that returns some, for
            tokens of users; default none.
        credential_servers: URLs of further servers that may have `auth` and `headers`. By default they go to `server`; without
            it to the first server of a document that is given, or to the one that a document was fetched from. A tool that would
            send them elsewhere is refused.
        tools: patterns of the names of the tools to have, such as `get_*`; by default all.
        prefix: begins the name of each tool; default none.
        require_confirmation: the user has to agree before a call: True for all tools, "unsafe" for all that are not GET or HEAD,
            patterns of names, or a function of tool, arguments and ToolContext, sync or async; default False.
        timeout_s: how long a call may take; default 30.
        max_response_bytes: of a text that a model gets; what is longer is cut. Default 64 KiB.
        max_artifact_bytes: of data that becomes an artifact; default 16 MiB.
        headers: sent with each request; default none.
        name: names the toolset; by default the title of the document.

    Raises:
        DefinitionError: the document or an option is wrong. A document at a URL is checked when it is fetched.
    """

    searchable = True

    @explains_wrong_calls
    def __init__(
        self,
        spec: Mapping[str, Any] | str | Path,
        *,
        server: str | None = None,
        server_variables: Mapping[str, str] | None = None,
        auth: credentials.Auth = None,
        credential_servers: Sequence[str] = (),
        tools: Sequence[str] | None = None,
        prefix: str = "",
        require_confirmation: Confirm = False,
        timeout_s: float = 30.0,
        max_response_bytes: int = 64 * 1024,
        max_artifact_bytes: int = 16 * 1024 * 1024,
        headers: Mapping[str, str] | None = None,
        name: str = "",
    ) -> None:
        if importlib.util.find_spec("httpx") is None:
            raise DefinitionError("OpenApiTools needs httpx: pip install 'raygrove[openapi]'")
        if not isinstance(spec, Mapping | str | Path):
            raise DefinitionError(f"OpenApiTools takes a dictionary, a path or a URL, not {type(spec).__name__}")
        if prefix and not (prefix.isidentifier() and prefix.isascii() and len(prefix) <= MAX_PREFIX):
            raise DefinitionError(f"prefix {prefix!r} of OpenApiTools: use up to {MAX_PREFIX} letters, digits and underscores")
        self.name = name
        self.prefix = prefix
        self.timeout_s = timeout_s
        self.max_response_bytes = max_response_bytes
        self.max_artifact_bytes = max_artifact_bytes
        self.headers = dict(headers or {})
        self._server = server
        self._variables = dict(server_variables or {})
        self._auth = auth
        self._credential_servers = checked_servers(credential_servers)
        self._patterns = _patterns("tools", tools)
        self._confirm = require_confirmation if callable(require_confirmation) else _confirming(require_confirmation)
        self._url = str(spec) if documents.is_url(spec) else None
        self._tools: Sequence[OpenApiTool] | None = None
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
        if self._url is None:
            self._tools = self._made_of(documents.plain(spec) if isinstance(spec, Mapping) else documents.read(spec))
        self.name = self.name or type(self).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tools. Raises DefinitionError for a document at a URL that is wrong or cannot be fetched."""
        if self._tools is None:
            from runtime.integrations.openapi.client import ApiError, fetched

            url = str(self._url)
            try:
                text = await fetched(url, self.timeout_s, MAX_DOCUMENT_BYTES)
            except ApiError as error:
                raise DefinitionError(f"OpenApiTools cannot fetch {url}: {error}") from error
            self._tools = self._made_of(documents.parsed(text, url), base=url)
        return self._tools

    def _made_of(self, spec: Mapping[str, Any], base: str | None = None) -> Sequence[OpenApiTool]:
        document = documents.Document(spec)
        self.name = self.name or document.title
        default = credentials.key_place(document)
        auth = credentials.checked(self._auth, default)
        found = operations(document, server=self._server, base=base, variables=self._variables, prefix=self.prefix)
        chosen = _matching(found, self._patterns, "tools") if self._patterns is not None else found
        if self._auth is not None or self.headers:
            check_servers(chosen, [*self._credential_servers, self._own_server(document, base)], with_headers=bool(self.headers))
        confirmed: Sequence[Operation] = ()
        if isinstance(self._confirm, tuple):
            confirmed = _matching(chosen, self._confirm, "require_confirmation")
        elif self._confirm is True or self._confirm == "unsafe":
            confirmed = [each for each in chosen if self._confirm is True or each.is_unsafe]
        names = {each.name for each in confirmed}
        asks = self._confirm if callable(self._confirm) else None
        return [OpenApiTool(self, each, auth, default, each.name in names or asks is not None, asks) for each in chosen]

    def _own_server(self, document: documents.Document, base: str | None) -> str:
        """The server that credentials are for. Where a document was fetched, what it says does not count."""
        if self._server is None and base is not None:
            return base
        servers = document.root.get("servers")
        try:
            return server_url(servers if isinstance(servers, list) else [], self._server, base, self._variables)
        except DefinitionError:
            # The document as a whole has none: each operation names its own.
            return ""

    def client(self) -> Client:
        """The connections of the running event loop."""
        from runtime.integrations.openapi.client import Client

        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = Client()
        return client

    async def aclose(self) -> None:
        """Close the connections."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_clients"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._clients = WeakKeyDictionary()


class OpenApiTool(Tool):
    """One operation.

    Args:
        key_place: place and name of keys for which the credentials do not say it.
        require_confirmation: the user may have to agree to a call.
        asks: says of a call whether the user has to agree; None: to each, if to any.
    """

    def __init__(
        self,
        api: OpenApiTools,
        operation: Operation,
        auth: credentials.Auth,
        key_place: tuple[str, str] | None,
        require_confirmation: bool,
        asks: Callable[[Tool, JsonObject, ToolContext], Any] | None,
    ) -> None:
        self.name = api.prefix + operation.name
        self.description = operation.description
        self.require_confirmation = require_confirmation
        self.operation = operation
        self._api = api
        self._auth = auth
        self._key_place = key_place
        self._asks = asks

    def declaration(self) -> FunctionDeclaration:
        """The operation with its parameters, save those that credentials fill in."""
        return self.operation.declaration(self.name, credentials.filled_in(self._auth))

    async def needs_confirmation(self, args: JsonObject, context: ToolContext) -> bool:
        """Ask the user's function, if there is one; else every call of the tool does."""
        if self._asks is None:
            return True
        asked = self._asks(self, args, context)
        return bool(await asked if inspect.isawaitable(asked) else asked)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Send the request, and return what the server answers.

        Raises:
            ValueError: an argument is missing, or cannot be sent.
            Exception: what the function raises that gives the credentials.
        """
        from runtime.integrations.openapi.client import AnswerLimits, ApiError

        known = without_unknown(args, known_arguments(self.operation), self.name, context.agent_name)
        request = request_of(self.operation, known)
        request.headers = {**self._api.headers, **request.headers}
        if request.method in ("POST", "PATCH"):
            request.headers.setdefault("Idempotency-Key", repeat_key(self.name, context))
        if self.operation.takes_credentials:
            await credentials.authorize(request, self._auth, context, self._key_place)
        files = await attached(request, context)
        try:
            async with asyncio.timeout(self._api.timeout_s):
                limits = AnswerLimits(self._api.max_response_bytes, self._api.max_artifact_bytes)
                answer = await self._api.client().send(request, files, limits)
        except TimeoutError:
            return {"error": f"{request.shown} was not answered within {self._api.timeout_s:g} s"}
        except ApiError as error:
            return {"error": f"{request.shown} got no answer: {error}"}
        return await result_of(self.name, request, answer, context)


def _patterns(option: str, given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise DefinitionError(f"{option} of OpenApiTools takes a list of patterns such as ['get_*'], not {given!r}")
    return tuple(given)


def _confirming(given: bool | str | Sequence[str]) -> bool | str | tuple[str, ...]:
    if isinstance(given, bool) or given == "unsafe":
        return given
    if isinstance(given, str):
        raise DefinitionError(
            f"require_confirmation of OpenApiTools takes True, 'unsafe', a list of patterns or a function, not {given!r}"
        )
    return _patterns("require_confirmation", given) or ()


def _matching(found: Sequence[Operation], patterns: Sequence[str], option: str) -> list[Operation]:
    """The operations whose names fit one of some patterns. Raises DefinitionError for a pattern that none fits."""
    names = [each.name for each in found]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = did_you_mean(pattern, names)
            raise DefinitionError(f"{option}: no operation is called {pattern!r}.{near} There are: {some_of(names, MAX_NAMED)}")
    return [each for each in found if any(fnmatchcase(each.name, pattern) for pattern in patterns)]


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
