"""What an agent's configuration says of calls themselves, not of their answers."""

from __future__ import annotations

import math

import msgspec

from actors.messages.json_types import JsonObject


class CallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of the call itself, not of the answer: `config.http_options`.

    Attributes:
        headers: further headers of the request.
        body: further fields of its body.
        timeout_s: None without a limit of its own.
    """

    headers: dict[str, str]
    body: JsonObject
    timeout_s: float | None = None


def server_timeout(timeout_s: float | None) -> dict[str, str]:
    """The header that says a time limit to Google's services. As the SDK's own option it would bound whole streams, too."""
    return {} if timeout_s is None else {"X-Server-Timeout": str(math.ceil(timeout_s))}


def call_options(config: JsonObject) -> CallOptions:
    """The options of one call."""
    given = config.get("http_options") or {}
    timeout_ms = given.get("timeout")
    return CallOptions(
        headers=dict(given.get("headers") or {}),
        body=dict(given.get("extra_body") or {}),
        timeout_s=timeout_ms / 1000 if timeout_ms else None,
    )
