"""Sends the requests of SDKs that are built on httpx by aiohttp."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from functools import cache
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from runtime.models.http.connections import ModelConnections

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
