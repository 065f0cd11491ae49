"""An HTTP API for tests, and the document that describes it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

BOMB = gzip.compress(b"a" * 64 * 2**20, 9)
"""64 KiB that become 64 MiB."""

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


class ApiServer:
    """Answers each request with what it has got, but for a few paths.

    Attributes:
        url: of the server.
        named: the server that its document names.
        hangs: set when the requests of `/hangs` may end.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.got: list[dict[str, Any]] = []
        self.hangs = Event()
        self.named = "/"

    def answer(self, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        route = path.partition("?")[0]
        if route == "/logo":
            return 200, {"Content-Type": "image/png", "Set-Cookie": "session=ada; Path=/"}, PNG
        if route == "/long":
            return 200, {"Content-Type": "text/plain"}, b"0123456789" * 100
        if route == "/broken":
            return 503, {"Content-Type": "application/json", "Retry-After": "7"}, b'{"detail": "busy"}'
        if route == "/moved":
            return 307, {"Location": "/here?moved=1"}, b""
        if route == "/away":
            return 307, {"Location": "http://localhost:1/elsewhere"}, b""
        if route == "/bomb":
            return 200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, BOMB
        if route == "/nothing":
            return 204, {}, b""
        if route == "/hangs":
            self.hangs.wait(20)
        if route == "/openapi.json":
            return 200, {"Content-Type": "application/json"}, json.dumps(spec(self.named)).encode()
        return 200, {"Content-Type": "application/json"}, json.dumps(self.got[-1]).encode()


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """A server that runs until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.got.append(
                {"method": self.command, "path": self.path, "headers": headers, "body": body.decode(errors="backslashreplace")}
            )
            status, given, data = state.answer(self.command, self.path)
            self.send_response(status)
            for name, value in {**given, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _serve

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = ApiServer(server.server_port)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        state.hangs.set()
        server.shutdown()
        thread.join()
        server.server_close()


def operation(name: str, **fields: Any) -> dict[str, Any]:
    return {"operationId": name, "summary": f"The operation {name}.", **fields}


def parameter(name: str, place: str, kind: str = "string", **fields: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": kind}, **fields}


def body(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {media_type: {"schema": schema}}}


def spec(url: str) -> dict[str, Any]:
    """The document of the server."""
    pet = {"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "integer", "readOnly": True}}}
    upload = {"type": "object", "properties": {"photo": {"type": "string", "format": "binary"}, "title": {"type": "string"}}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": url}],
        "components": {
            "schemas": {"Pet": pet},
            "parameters": {"Id": parameter("id", "path", "integer")},
            "securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "api_key"}},
        },
        "paths": {
            "/pets/{id}": {
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "get": operation(
                    "get_pet",
                    parameters=[
                        parameter("fields", "query", "array", explode=False),
                        parameter("X-Trace", "header"),
                        parameter("theme", "cookie"),
                    ],
                ),
                "delete": operation("delete_pet"),
            },
            "/pets": {"post": operation("add_pet", requestBody=body("application/json", {"$ref": "#/components/schemas/Pet"}))},
            "/login": {"post": operation("log_in", security=[], requestBody=body("application/x-www-form-urlencoded", pet))},
            "/photos": {"post": operation("add_photo", requestBody=body("multipart/form-data", upload))},
            "/raw": {"put": operation("put_raw", requestBody=body("image/png", {}))},
            **{f"/{name}": {"get": operation(f"get_{name}")} for name in PLAIN},
        },
    }


PLAIN = ("logo", "long", "bomb", "broken", "moved", "away", "nothing", "hangs")
