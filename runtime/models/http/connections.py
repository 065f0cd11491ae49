"""The HTTP connections of one client of a model's service, by aiohttp. Importing this file loads it, which takes 0.2 s.

httpx's own pool takes three times the CPU for a call, and more the more there are at once; and the SDKs limit it to 1,000
connections, or 100, beyond which calls wait in silence. Here each call that is under way has a connection, as long as this
process may open files.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

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
