"""Sends the requests of OpenApiTools, and reads the answers. The only module that imports httpx."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple

import httpx

from runtime.integrations.openapi.wire import WireRequest

ACCEPTED = "gzip, deflate"
"""The encodings that are asked for."""

_NONE = ("", "identity")
_ANY_HEADER = zlib.MAX_WBITS | 32


async def beginning(sent: AsyncIterator[bytes], encoding: str, most: int) -> bytes:
    """The body of an answer, or its first `most` bytes. It is decompressed only so far: three megabytes may stand for gigabytes.

    Args:
        sent: the bytes as they come over the wire.
        encoding: the answer's Content-Encoding.
        most: how many bytes are wanted.

    Raises:
        ValueError: the body is not in the encoding that it names, or in none that was asked for.
    """
    encoding = encoding.strip().lower()
    if encoding not in (*_NONE, "gzip", "x-gzip", "deflate"):
        raise ValueError(f"the answer is encoded as {encoding!r}, and {ACCEPTED} were asked for")
    body = _Plain() if encoding in _NONE else _Inflated()
    data = bytearray()
    async for piece in sent:
        data += body.next(piece, most - len(data))
        if len(data) >= most:
            break
    return bytes(data)


class _Plain:
    def next(self, piece: bytes, most: int) -> bytes:
        return piece[:most]


class _Inflated:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_ANY_HEADER)
        # What has come before the first byte was made of it.
        self._head: bytes | None = b""

    def next(self, piece: bytes, most: int) -> bytes:
        try:
            return self._inflated(piece, most)
        except zlib.error as error:
            raise ValueError(f"the answer cannot be decompressed: {error}") from error

    def _inflated(self, piece: bytes, most: int) -> bytes:
        if self._head is None:
            return self._stream.decompress(piece, most)
        self._head += piece
        try:
            made = self._stream.decompress(piece, most)
        except zlib.error:
            # Some servers leave out the header of deflate.
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
            made = self._stream.decompress(self._head, most)
        if made:
            self._head = None
        return made


MAX_REDIRECTS = 5

Files = Sequence[tuple[str, tuple[str, bytes, str]]]
"""By field: name, data and MIME type of a file."""


@dataclass(frozen=True)
class HttpAnswer:
    """The answer to a request.

    Attributes:
        media_type: without its parameters, in lower case; "" when the server says none.
        data: the body, or its beginning.
        is_cut: True when the body has more.
        location: where the server redirects to.
        retry_after: when the server wants to be asked again, in its words.
    """

    status: int
    reason: str
    media_type: str
    charset: str
    data: bytes
    is_cut: bool
    location: str
    retry_after: str


class AnswerLimits(NamedTuple):
    """How much of an answer is read: of JSON and of texts, and of anything else."""

    text_bytes: int
    data_bytes: int


class ApiError(Exception):
    """A request got no answer."""


class Client:
    """Connections of one event loop, which all sessions share. It keeps no cookies: they would be another user's."""

    def __init__(self) -> None:
        # The call as a whole has a time limit.
        self._http = httpx.AsyncClient(cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())), timeout=None)

    async def send(self, request: WireRequest, files: Files, limits: AnswerLimits) -> HttpAnswer:
        """Send a request, and follow redirects of GET and HEAD to the same server.

        Raises:
            ApiError: there was no answer.
        """
        try:
            url = httpx.URL(request.whole_url)
            for _ in range(MAX_REDIRECTS):
                answer = await self._send(request, url, files, limits)
                if not answer.location or request.method not in ("GET", "HEAD"):
                    return answer
                target = url.join(answer.location)
                if (target.scheme, target.netloc) != (url.scheme, url.netloc):
                    # Credentials stay with the server that they are for.
                    return answer
                url = target
            return answer
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ApiError(f"{type(error).__name__}: {error}".removesuffix(": ")) from error

    async def _send(self, request: WireRequest, url: httpx.URL, files: Files, limits: AnswerLimits) -> HttpAnswer:
        headers = {"Accept": "application/json, */*;q=0.8", **request.headers, "Accept-Encoding": ACCEPTED}
        if request.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in request.cookies.items())
        body = _multipart(request, files) if request.fields is not None else {"content": request.content}
        user, bare = _split(url)
        async with self._http.stream(
            request.method, bare, headers=headers, auth=user, follow_redirects=False, **body
        ) as response:
            media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            limit = limits.text_bytes if is_text(media_type) or response.is_error else limits.data_bytes
            data = await _body(response, limit + 1)
            return HttpAnswer(
                status=response.status_code,
                reason=response.reason_phrase,
                media_type=media_type,
                charset=response.charset_encoding or "utf-8",
                data=data[:limit],
                is_cut=len(data) > limit,
                location=response.headers.get("location", "") if response.has_redirect_location else "",
                retry_after=response.headers.get("retry-after", ""),
            )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


async def _body(response: httpx.Response, most: int) -> bytes:
    return await beginning(response.aiter_raw(64 * 1024), response.headers.get("content-encoding", ""), most)


def _split(url: httpx.URL) -> tuple[tuple[str, str] | None, httpx.URL]:
    """User and password in a URL, and the URL without them: the client writes URLs into the log."""
    user = (url.username, url.password) if url.userinfo else None
    return user, url.copy_with(userinfo=b"")


def _multipart(request: WireRequest, files: Files) -> dict[str, object]:
    # A form is multipart for httpx only when each field is given as a file, one without a name.
    texts = [(name, (None, text.encode())) for name, text in request.fields or ()]
    return {"files": [*texts, *files]}


async def fetched(url: str, timeout_s: float, max_bytes: int) -> str:
    """The text at a URL. Raises ApiError."""
    client = httpx.AsyncClient(timeout=timeout_s, follow_redirects=True)
    try:
        user, bare = _split(httpx.URL(url))
        async with client, client.stream("GET", bare, headers={"Accept-Encoding": ACCEPTED}, auth=user) as response:
            response.raise_for_status()
            data = await _body(response, max_bytes + 1)
            if len(data) > max_bytes:
                raise ApiError(f"{bare} has more than {max_bytes} bytes")
            return data.decode()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ApiError(f"{type(error).__name__}: {error}".removesuffix(": ")) from error


def is_json(media_type: str) -> bool:
    """True for JSON of whatever kind."""
    return media_type.endswith(("/json", "+json"))


def is_text(media_type: str) -> bool:
    """True for what a model can read: JSON, texts, XML, YAML."""
    readable = ("/xml", "+xml", "/yaml", "/x-yaml", "/javascript", "/x-www-form-urlencoded", "/x-ndjson")
    return is_json(media_type) or media_type.startswith("text/") or media_type.endswith(readable)
