"""Calls of MCP servers' tools: agents to the actor of the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from actors.errors import DefinitionError
from actors.messages.content import Part
from actors.messages.json_types import JsonObject
from actors.messages.protocol.base import Ack, Message, Request
from actors.messages.session import SessionKey

McpScope = Literal["app", "session"]
"""Who shares a connection with a server: all sessions of the app, or each has its own."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP server, as its actor has to know it: see `McpTools` for the fields.

    Attributes:
        headers: those that are the same for all sessions.
    """

    name: str
    command: Sequence[str] = ()
    url: str = ""
    env: dict[str, str] = {}
    cwd: str | None = None
    headers: dict[str, str] = {}
    timeout_s: float = 60.0
    connect_timeout_s: float = 10.0
    cache_s: float = 300.0
    scope: McpScope = "app"

    def check_same(self, known: McpServer) -> None:
        """Check that it is the server that is known by its name. Raises DefinitionError."""
        if self != known:
            raise DefinitionError(f"two MCP servers of this app are called {self.name!r}, and differ: name one of them otherwise")


class McpToolInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server describes it.

    Attributes:
        parameters: the JSON schema of the arguments.
    """

    name: str
    description: str = ""
    parameters: JsonObject = {}


class McpToolList(Message, frozen=True, kw_only=True):
    """The tools of a server.

    Attributes:
        version: names the list.
        tools: None when the sender has this version.
    """

    version: str
    tools: Sequence[McpToolInfo] | None = None


class ListMcpTools(Request[McpToolList], frozen=True, kw_only=True):
    """Ask for the tools of a server.

    Attributes:
        session: for which they are asked.
        headers: of this session's requests.
        known: the version of the list that the sender has; "" for none.
    """

    session: SessionKey
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    known: str = ""


class McpResult(Message, frozen=True, kw_only=True):
    """What came of a call.

    Attributes:
        structured: the result as a JSON object, if the server gives one.
        parts: texts and data of the result.
        is_error: the tool has failed, and says why in its texts.
        question: what the server asks the user; the call has no result then.
        memo: what has to come with the user's answer.
    """

    structured: JsonObject | None = None
    parts: Sequence[Part] = ()
    is_error: bool = False
    question: JsonObject | None = None
    memo: JsonObject | None = None


class CallMcpTool(Request[McpResult], frozen=True, kw_only=True):
    """Call a tool of a server.

    Attributes:
        session: of the call.
        headers: of this session's requests.
        tool: the server's name of the tool.
        call_id: the id of the function call. It stays the same when the call is made again, and the server gets it.
        memo: what the reply that asked for the user's answer has said; None without an answer.
        answer: what the user has answered.
    """

    session: SessionKey
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    tool: str
    args: JsonObject = msgspec.field(default_factory=dict)
    call_id: str
    memo: JsonObject | None = None
    answer: JsonObject | None = None


class StopMcpCall(Request[Ack], frozen=True, kw_only=True):
    """Stop a call, since its run was cancelled: the server is to know. `call_id`: as in CallMcpTool."""

    call_id: str
