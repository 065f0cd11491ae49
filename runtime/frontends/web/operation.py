"""An operation of the API: where it is, what it takes and gives. The routes and the OpenAPI document are both made of these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from actors.errors import RequestError, TurnError
from runtime.driver.operation import AppOperation
from runtime.frontends.web.auth import Principal
from runtime.frontends.web.call import Call, Served, json_response
from runtime.frontends.web.problems import NotFoundError, log_failed_turn, problem_response
from runtime.observability.telemetry.caller import called_with

STREAM = "text/event-stream"
"""The media type of streams."""

CLIENT_LEFT = 499
"""The status of a request whose client left before its answer: it is only counted."""

NOBODY = Principal(user_id="")
"""The principal of operations that need no credentials: it reaches the data of no user."""

CONNECTION = "raygrove.connection"
"""Where the scope of a request has the connection over which it came, see `runtime.frontends.web.connections`."""

OWN_PATHS = "/v1/"
"""Below it a parameter that is not known is refused: it may be a known one that is written wrong."""

Handler = Callable[[Call], Awaitable[object]]
"""Answers a call: with a Response, or with a value that becomes JSON."""


class Header(NamedTuple):
    """A header that a request may have: its name, what it says, and its JSON schema."""

    name: str
    says: str
    schema: Mapping[str, object] = MappingProxyType({"type": "string"})


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters beside the user."""


@dataclass(frozen=True)
class HttpOperation:
    """What a client can do.

    Attributes:
        method: GET, POST …
        path: with names of parts in braces.
        handle: does it. Its docstring says what it does.
        query: a struct with the parameters of the query.
        body: the type of the JSON body; None for none.
        gives: the type of the JSON response; None for none.
        status: of the response when it succeeds.
        takes_media, gives_media: other forms of the body and of the response, such as a stream of events.
        headers: request headers that it reads, each with what it says.
        statuses: further statuses of its response, each with what it says.
        users: whose data it is about: that of "one" user, of "any" or all of them, or of "none".
        is_open: it needs no credentials.
    """

    method: str
    path: str
    handle: Handler
    query: Any = None
    body: Any = None
    gives: Any = None
    status: int = 200
    takes_media: Sequence[str] = ()
    gives_media: Sequence[str] = ()
    headers: Sequence[Header] = ()
    statuses: Sequence[tuple[int, str]] = ()
    users: Literal["one", "any", "none"] = "one"
    is_open: bool = False

    @property
    def name(self) -> str:
        """Its name in the description of the API; unique."""
        name = self.handle.__name__
        # A list of turns is that of a session, or of an app.
        return f"{name}_of_session" if "{session}" in self.path and name.startswith("list_") else name

    @property
    def streams(self) -> bool:
        """True when its response may be a stream."""
        return STREAM in self.gives_media

    async def answer(self, request: Request, served: Served) -> Response:
        """The response to a request. Whatever goes wrong, the client gets a problem, and nothing of a traceback."""
        call: Call | None = None
        try:
            with called_with(request.headers.get("traceparent", "")):
                call = Call(request, served, await self._principal(request, served))
                response = await self._respond(call)
        except ClientDisconnect:
            response = Response(status_code=CLIENT_LEFT)
        except Exception as error:
            is_operator = call is not None and call.principal.is_admin
            if isinstance(error, TurnError) and not is_operator:
                log_failed_turn("", str(error))
            response = await problem_response(request, error, for_operator=is_operator)
        finally:
            if call is not None:
                call.release()
        # What users have said is in no cache, unless an operation says otherwise.
        response.headers.setdefault("Cache-Control", "no-store")
        served.requests[f"{self.method} {self.path}", response.status_code] += 1
        return response

    async def _principal(self, request: Request, served: Served) -> Principal:
        if self.is_open:
            return NOBODY
        principal = await served.auth(request)
        # Where the server is ours: one that runs `app_for` in its own way looks after its connections itself.
        if (connection := request.scope.get(CONNECTION)) is not None:
            connection.know()
        return principal

    async def _respond(self, call: Call) -> Response:
        if self.query is None and self.path.startswith(OWN_PATHS):
            call.query(NoQuery)
        answer = await self.handle(call)
        if isinstance(answer, Response):
            return answer
        return Response(status_code=204) if answer is None else json_response(answer, self.status)


def routes(operations: Sequence[HttpOperation], served: Served) -> list[Route]:
    """The routes of operations: one for each path, so that a wrong method gets to know the right ones."""
    by_path: dict[str, dict[str, HttpOperation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [_route(path, by_method, served) for path, by_method in by_path.items()]


def _route(path: str, by_method: Mapping[str, HttpOperation], served: Served) -> Route:
    async def endpoint(request: Request) -> Response:
        return await by_method["GET" if request.method == "HEAD" else request.method].answer(request, served)

    route = Route(path, endpoint, methods=list(by_method))
    if "GET" in by_method and by_method["GET"].streams and route.methods is not None:
        # The answer to HEAD has no body, and a stream would never end.
        route.methods.discard("HEAD")
    return route


def http_operation(of: AppOperation) -> HttpOperation:
    """The route of an operation, with its part of the OpenAPI document."""
    reads = of.method == "GET"

    async def handle(call: Call) -> object:
        if of.for_admins:
            call.principal.check_admin()
        given: list[Any] = []
        if of.takes is not None:
            given.append(call.query(of.takes) if reads else await call.body(of.takes))
        named: dict[str, str | None] = {part: call.path(part) for part in of.parts}
        if of.users != "none":
            # A session is one of a user's.
            is_of_one = of.users == "one" or any(getattr(each, "session", None) is not None for each in given)
            named["user_id"] = call.user_id if is_of_one else call.any_user_id
        try:
            return await of.call(call.runtime.aio, *given, **named)
        except RequestError as error:
            if of.refused == 404:
                raise NotFoundError(str(error)) from None
            raise

    handle.__name__, handle.__doc__ = of.run.__name__, of.run.__doc__
    takes: dict[str, Any] = {"query" if reads else "body": of.takes}
    status = 204 if of.gives is None else 200
    return HttpOperation(of.method, of.path, handle, gives=of.gives, status=status, users=of.users, **takes)
