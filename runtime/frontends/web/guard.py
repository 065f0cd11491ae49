"""What is checked of every request before its route is looked for.

- `Host` must be one of the server's names: a page of a foreign site whose name was made to lead here (DNS rebinding) has another.
- `Origin`, which browsers send, must be this server or one of the allowed origins. No header is sent that would let other sites
  read responses, unless they are allowed.
- Ids in paths may hold slashes, written as `%2F`. Routes see paths as they were sent, and decode the parts themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.frontends.web.problems import HttpError, NotAllowedError, problem_response

METHODS = "GET, POST, PUT, PATCH, DELETE"
HEADERS = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer, If-None-Match, Range"
EXPOSED = "Location, Content-Location, ETag, Content-Range"


class Guard:
    """Checks where a request was sent to, and from which site.

    Args:
        hosts: the names of the server, without ports; None: any.
        origins: the sites whose pages may use the server, such as `https://desk.example.com`.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str]) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts} if hosts is not None else None
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check(headers, scope["scheme"])
        except HttpError as error:
            await (await problem_response(Request(scope), error))(scope, receive, send)
            return
        origin = headers.get("origin", "")
        if origin in self._origins:
            send = _allowing(send, origin)
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                allowed = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Allow-Headers": HEADERS}
                await Response(status_code=204, headers={**allowed, "Access-Control-Max-Age": "600"})(scope, receive, send)
                return
        await self._app({**scope, "path": _sent_path(scope)}, receive, send)

    def _check(self, headers: Headers, scheme: str) -> None:
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may have read it by the other one (RFC 9112, 6.1).
            raise HttpError(400, "give Content-Length or Transfer-Encoding, and not both", {"Connection": "close"})
        given = headers.get("host", "")
        host = _host_name(given)
        if host is None or (self._hosts is not None and host not in self._hosts):
            raise HttpError(421, f"this server is not {given!r}: the header Host must name it")
        origin = headers.get("origin")
        if origin is None or origin in self._origins:
            return
        # Pages cannot send this header to another site without its leave: it is a proxy's.
        schemes = {scheme, headers.get("x-forwarded-proto", "").strip().lower()}
        found = urlsplit(origin)
        if found.netloc.lower() != given.lower() or found.scheme.lower() not in schemes:
            raise NotAllowedError(f"pages of {origin!r} may not use this server")


def _host_name(given: str) -> str | None:
    """The name in a `Host` header, without its port; None when it is none."""
    try:
        parts = urlsplit(f"//{given}")
        parts.port  # noqa: B018 - raises when it is no number
    except ValueError:
        return None
    name = (parts.hostname or "").lower()
    if not name or parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return f"[{name}]" if ":" in name else name


def _allowing(send: Send, origin: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = EXPOSED
            headers.add_vary_header("Origin")
        await send(message)

    return sending


def _sent_path(scope: Scope) -> str:
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        return quote(scope["path"], safe="/:@!$&'()*+,;=~-._")
    return raw.partition(b"?")[0].decode("latin-1")
