"""An MCP server, made with the library: over its standard input and output, or with a port as argument over HTTP."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import CallToolResult, ImageContent, TextContent
from pydantic import BaseModel

PNG = b"\x89PNG\r\n\x1a\n"

server = MCPServer("tests")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
def process_id() -> int:
    """The process of the server."""
    return os.getpid()


@server.tool()
def header(name: str, context: Context) -> str:
    """A header of the request."""
    headers = context.headers or {}
    return str(headers.get(name.lower(), ""))


@server.tool()
def variable(name: str) -> str:
    """An environment variable of the server."""
    return os.environ.get(name, "")


@server.tool()
def picture() -> CallToolResult:
    """A picture with a text."""
    data = base64.b64encode(PNG).decode()
    return CallToolResult(content=[TextContent(text="here it is"), ImageContent(data=data, mime_type="image/png")])


@server.tool()
async def wait(file: str, context: Context) -> str:
    """Wait for ever when called first; the file has a line for each call."""
    meta: Any = context.request_context.meta or {}
    if noted(Path(file), f"{os.getpid()} {meta.get('raygrove/function_call_id')}\n") == 1:
        await asyncio.Event().wait()
    return "waited"


def noted(path: Path, line: str) -> int:
    with path.open("a") as lines:
        lines.write(line)
    return path.read_text().count("\n")


@server.tool()
async def grow(context: Context) -> str:
    """Have one more tool."""
    server.add_tool(add, name="grown", description="Add two numbers, too.")
    await context.notify_tools_changed()
    return "grown"


class Day(BaseModel):
    """What is asked."""

    day: str


def which_day(place: str) -> Elicit[Day]:
    return Elicit(f"Which day in {place}?", Day)


@server.tool()
def book(place: str, when: Annotated[Day, Resolve(which_day)]) -> str:
    """Book a table; asks for the day."""
    return f"{place} on {when.day}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
