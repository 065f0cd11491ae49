"""HTTP for the clients of models' services, by aiohttp. Importing this file loads it, which takes 0.2 s.

httpx's own pool takes three times the CPU for a call, and more the more there are at once; and the SDKs limit it to 1,000
connections, or 100, beyond which calls wait in silence. Here each call that is under way has a connection, as long as this
process may open files.

The SDKs make a pydantic object of each event of a stream, which takes 0.1 to 0.2 ms, and a streamed answer has hundreds. So their
clients send the requests and check the status, and the answers are read here.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

logger = logging.getLogger(__name__)

KEPT_S = 30.0
"""How long a connection is kept for the next call: an agent's tools mostly take less, and a new one costs a TLS handshake."""

READ_BYTES = 2**22
"""What is read ahead of a response that nothing takes, as google-genai has it: it takes whole lines."""

FEW_CONNECTIONS = 1_000
"""A process that may have fewer says so."""


class ModelConnections:
    """The connections of one client.

    Args:
        url: where its requests go: it says which proxy of the environment they take.
        loop: the event loop that makes calls. It runs in another thread than the caller's.

    Attributes:
        session: aiohttp's, for requests.
    """

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy = _proxy(url)
        self._most = _most_connections()
        # aiohttp makes a session only on its event loop.
        self.session: aiohttp.ClientSession = asyncio.run_coroutine_threadsafe(self._open(), loop).result()

    @property
    def waiting(self) -> int:
        """The number of calls that have no connection yet: it is being made, or there are as many as there may be."""
        return self._connector.waiting

    async def _open(self) -> aiohttp.ClientSession:
        self._connector = _Connector(self._most)
        return aiohttp.ClientSession(
            connector=self._connector, cookie_jar=aiohttp.DummyCookieJar(), proxy=self._proxy, read_bufsize=READ_BYTES
        )

    async def aclose(self) -> None:
        """Close them."""
        await self.session.close()


class _Connector(aiohttp.TCPConnector):
    """Counts the calls that wait in it."""

    def __init__(self, most: int) -> None:
        super().__init__(limit=most, keepalive_timeout=KEPT_S)
        self.waiting = 0

    async def connect(self, *args: Any, **options: Any) -> Any:
        self.waiting += 1
        try:
            return await super().connect(*args, **options)
        finally:
            self.waiting -= 1


def _proxy(url: str) -> str | None:
    """The proxy for a URL, by HTTP_PROXY and so on. aiohttp itself would look for it at each call, in a thread."""
    target = urlsplit(url)
    if not target.hostname or proxy_bypass(target.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _most_connections() -> int:
    """Half of the files that this process may open, after it has raised that number as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # macOS refuses more than its kernel's own limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return 0  # aiohttp's word for no limit
    if (most := max(soft // 2, 1)) < FEW_CONNECTIONS:
        logger.warning(
            "this process may open only %d files, so no more than %d calls of a model run in it at once and others wait: "
            "raise the hard limit (ulimit -Hn) where Ray's nodes are started",
            soft,
            most,
        )
    return most


HttpxClient = TypeVar("HttpxClient")


def over_aiohttp(kind: type[HttpxClient], connections: ModelConnections) -> HttpxClient:
    """A client of httpx, or of a library that is like it, which sends its requests over connections of aiohttp.

    Certificates are checked as the library does it, with SSL_CERT_FILE and SSL_CERT_DIR.

    Args:
        kind: the library's AsyncClient, or a subclass of an SDK.
        connections: of the event loop in which it is used.
    """
    library = _library(kind)
    make: Any = kind
    client: HttpxClient = make(transport=_Transport(connections.session, library, library.create_ssl_context()))
    return client


class _Transport:
    """What httpx calls a transport."""

    def __init__(self, session: aiohttp.ClientSession, library: Any, tls: Any) -> None:
        self._session = session
        self._library = library
        self._tls = tls
        self._body = _body_class(library)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request. What aiohttp raises the SDKs take for a lost connection."""
        limits = request.extensions.get("timeout", {})
        answer = await self._session.request(
            request.method,
            URL(str(request.url), encoded=True),
            headers=request.headers.multi_items(),
            data=request.content or None,
            allow_redirects=False,
            auto_decompress=False,
            ssl=self._tls,
            server_hostname=request.extensions.get("sni_hostname"),
            timeout=aiohttp.ClientTimeout(
                connect=limits.get("pool"), sock_connect=limits.get("connect"), sock_read=limits.get("read")
            ),
        )
        return self._library.Response(answer.status, headers=answer.raw_headers, stream=self._body(answer), request=request)

    async def __aenter__(self) -> _Transport:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def aclose(self) -> None:
        """The connections are closed by their owner."""


def _library(kind: type[Any]) -> Any:
    """The library that a client comes from: httpx or httpx2, by the version of the SDK."""
    [base] = [base for base in kind.__mro__ if base.__name__ == "AsyncClient"]
    return sys.modules[base.__module__.partition(".")[0]]


@cache
def _body_class(library: Any) -> type[Any]:
    class HttpxBody(library.AsyncByteStream):  # type: ignore[misc]
        """The body of a response, as it comes. One that is not read to its end takes its connection with it."""

        def __init__(self, answer: aiohttp.ClientResponse) -> None:
            self._answer = answer

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._answer.content.iter_any():
                yield piece

        async def aclose(self) -> None:
            self._answer.close()

    return HttpxBody


class ServerEvent(NamedTuple):
    """One event.

    Attributes:
        name: "" without one.
        data: its lines, joined.
    """

    name: str
    data: bytes


async def server_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[ServerEvent, None]:
    """The events of a stream that comes in any pieces. One that has no empty line after it was cut off, and is left out."""
    rest, name, data = b"", "", []
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif line.startswith(b"event:"):
                name = line[6:].strip().decode()
            elif not line:
                if data:
                    yield ServerEvent(name, b"\n".join(data))
                name, data = "", []
