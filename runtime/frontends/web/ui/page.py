"""Serves the inspector. Its files are built from their sources beforehand, so a server needs nothing for it but themselves."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from starlette.responses import RedirectResponse, Response

from actors.errors import DefinitionError
from runtime.frontends.web.call import Call
from runtime.frontends.web.operation import HttpOperation
from runtime.frontends.web.problems import NotFoundError

STATIC = Path(__file__).parent / "static"

_KINDS = {
    "index.html": "text/html; charset=utf-8",
    "inspector.js": "text/javascript; charset=utf-8",
    "inspector.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "LICENSES.txt": "text/plain; charset=utf-8",
}

HEADERS: Mapping[str, str] = {
    # Its own script and style, pictures that it made of artifacts, and requests to this server; nothing else.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # The page's address names users and sessions.
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    # An upgraded server has another page, which is asked for again each time, and sent again only when it has changed.
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


class _File(NamedTuple):
    """A file of the page, as it is and compressed."""

    plain: bytes
    packed: bytes
    kind: str
    tag: str


class InspectorPage:
    """The page's files, which it keeps in memory.

    Args:
        folder: where they are.

    Raises:
        DefinitionError: they were not built.
    """

    def __init__(self, folder: Path = STATIC) -> None:
        try:
            self._files = {name: _read(folder / name, kind) for name, kind in _KINDS.items()}
        except OSError as error:
            raise DefinitionError(f"the page at /ui/ is not complete: {error}. In a checkout, `make web` builds it") from error

    def operations(self) -> list[HttpOperation]:
        """The paths of the page. They need no credentials: the page asks for a token itself, and has no data of its own."""
        return [
            HttpOperation("GET", "/ui", open_page, is_open=True, users="none"),
            HttpOperation("GET", "/ui/", self.get_page, is_open=True, users="none"),
            HttpOperation("GET", "/ui/{file}", self.get_file, is_open=True, users="none"),
        ]

    async def get_page(self, call: Call) -> Response:
        """Read the page."""
        return self._response(call, "index.html")

    async def get_file(self, call: Call) -> Response:
        """Read a file of the page."""
        return self._response(call, call.path("file"))

    def _response(self, call: Call, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            raise NotFoundError("the page has no such file")
        headers = {**HEADERS, "ETag": file.tag, "Content-Type": file.kind}
        asked = call.request.headers
        if file.tag in {each.strip().removeprefix("W/") for each in asked.get("if-none-match", "").split(",")}:
            return Response(status_code=304, headers=headers)
        if "gzip" in {each.partition(";")[0].strip() for each in asked.get("accept-encoding", "").split(",")}:
            return Response(file.packed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(file.plain, headers=headers)


async def open_page(call: Call) -> Response:
    """Lead to the page."""
    return RedirectResponse(f"{call.request.scope.get('root_path', '')}/ui/")


def _read(path: Path, kind: str) -> _File:
    plain = path.read_bytes()
    # Compressed or not it is the same page, so the validator is a weak one where it is compared.
    return _File(plain, gzip.compress(plain, mtime=0), kind, f'"{hashlib.sha256(plain).hexdigest()[:32]}"')
