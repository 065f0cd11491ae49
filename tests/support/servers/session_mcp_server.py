"""An MCP server over HTTP without the library: of the revision 2025-06-18, with sessions, or of 2026-07-28, without.

with session_mcp_server() as server:
    tools = McpTools(name="tests", url=server.url)
    server.forget()  # as if it was started again
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class SessionMcpServer:
    """What the server does, and what it was asked.

    Attributes:
        url: where it listens.
        refuse: the status and the body for a request of an unknown session, from the id of the request.
        reply: the events that answer a call, as bytes, from the arguments and the id; None ends the stream without an answer.
        is_modern: it is of the revision 2026-07-28.
        locked: the status for every request, as of a server that wants other credentials; 0 for none.
        locked_initialize: the same for `initialize` alone, where that is another one; 0 for `locked`.
        refused: how many requests got one of these.
        call_status: the status of the answers to calls.
        calls: the arguments of each call.
        sessions: those that it knows.
    """

    url: str
    refuse: Any = lambda asked: (400, "text/plain", b"No valid session ID provided")
    reply: Any = lambda args, asked: result(asked, "done")
    is_modern: bool = False
    locked: int = 0
    locked_initialize: int = 0
    call_status: int = 200
    refused: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)

    def forget(self) -> None:
        """Know no session any more."""
        self.sessions.clear()


def result(asked: Any, text: str) -> bytes:
    """The event with the result of a call."""
    return _event({"id": asked, "result": {"content": [{"type": "text", "text": text}]}})


def error(asked: Any, code: int) -> bytes:
    """The event with the error of a call."""
    return _event({"id": asked, "error": error_object(code)})


def error_object(code: int) -> dict[str, Any]:
    """An error of JSON-RPC."""
    return {"code": code, "message": "I refuse"}


def _event(message: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n"


@contextmanager
def session_mcp_server() -> Iterator[SessionMcpServer]:
    """A server in threads of this process."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = message.get("id")
            if server.locked:
                server.refused += 1
                is_initialize = message["method"] == "initialize"
                self.send((is_initialize and server.locked_initialize) or server.locked, "text/plain", b"")
            elif message["method"] == "initialize":
                server.sessions.append(session := f"session-{len(server.calls)}-{len(server.sessions)}-{id(message)}")
                body = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "x", "version": "1"},
                }
                self.send(200, "application/json", _json(asked, body), {"Mcp-Session-Id": session})
            elif message["method"] == "server/discover" and server.is_modern:
                self.send(200, "application/json", _json(asked, DISCOVERED))
            elif self.headers["Mcp-Session-Id"] not in server.sessions and not server.is_modern:
                self.send(*(server.refuse(asked) if asked is not None else (400, "text/plain", b"")))
            elif asked is None:
                self.send(202, "text/plain", b"")
            elif message["method"] == "tools/list":
                self.send(200, "application/json", _json(asked, {"tools": [TOOL], **LISTED}))
            elif message["method"] == "ping":
                self.send(200, "application/json", _json(asked, {}))
            else:
                server.calls.append(message["params"]["arguments"])
                self.send(server.call_status, "text/event-stream", server.reply(server.calls[-1], asked) or b"")

        def do_GET(self) -> None:
            self.send(405, "text/plain", b"")

        def do_DELETE(self) -> None:
            self.send(200, "text/plain", b"")

        def send(self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = SessionMcpServer(f"http://127.0.0.1:{listener.server_port}/mcp")
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}
LISTED = {"ttlMs": 0, "cacheScope": "private"}
TOOL = {"name": "pay", "inputSchema": {"type": "object", "properties": {"code": {"type": "integer"}}}}


def _json(asked: Any, body: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": asked, "result": body}).encode()
