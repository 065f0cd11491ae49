"""Whatever a request says, the answer is a result or a problem that names what is wrong: never a failure of the server.

The cases are the same in every run, and meet what earlier ones left.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.driver.runtime import Runtime
from runtime.frontends.web.app import ADK_OPERATIONS, OPERATIONS
from runtime.frontends.web.operation import HttpOperation
from runtime.web import Principal, StaticTokens, app_for

TOKEN = "a-token-0123456789"
CASES = 200

EVERY_OPERATION = [*OPERATIONS, *ADK_OPERATIONS]
NAMES = {name for operation in EVERY_OPERATION for name in re.findall(r"{(\w+)", operation.path)} - {"user", "app"}
"""What paths have places for."""

IDS = st.sampled_from([*["s"] * 12, "t", "desk", "user", "a/b", "..", "%00", "", "\u202e", "x" * 300]) | st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | IDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    *("id", "state", "stateDelta", "invocationId", "message", "config", "answers", "sessionId", "query", "userId", "appName"),
    *("newMessage", "filename", "artifact", "events", "streaming", "autoCreateSession", "app_name", "user_id", "session_id"),
)
MESSAGES = st.sampled_from(["hi", "pay", "ask", "fail", {"parts": [{"text": "hi"}]}, {"role": "model", "parts": []}])
RIGHT = {
    "message": MESSAGES,
    "newMessage": MESSAGES,
    "appName": st.just("desk"),
    "userId": st.just("u"),
    "sessionId": st.just("s"),
    "state": st.just({"a": 1}),
    "stateDelta": st.just({"app:x": None}),
    "artifact": st.just({"text": "x"}),
}
BODIES = (
    JSON
    | st.fixed_dictionaries(RIGHT)
    | st.fixed_dictionaries({}, optional={name: RIGHT.get(name, JSON) | JSON for name in FIELDS})
)
QUERIES = st.dictionaries(
    st.sampled_from(
        ["user", "limit", "offset", "before", "after_seq", "state", "q", "under", "depth", "version", "newest_first"]
    ),
    st.sampled_from(["0", "1", "-1", "u", "true", "1e9", "x" * 300, "99999999999999999999"]),
    max_size=3,
)
HEADERS = st.dictionaries(
    st.sampled_from(["Idempotency-Key", "Prefer", "Last-Event-ID", "Range", "If-None-Match", "Content-Type"]),
    st.sampled_from(["t", "respond-async", "7", "bytes=0-", "bytes=9-1", '"0"', "application/json", "text/html", "-1", "é"]),
    max_size=2,
)


@pytest.fixture(scope="module")
def send(rt: Runtime) -> Iterator[Callable[..., httpx2.Response]]:
    """Sends a request, on an event loop that lasts as long as all of them."""
    transport = httpx2.ASGITransport(app_for(rt, auth=StaticTokens({TOKEN: Principal(is_admin=True)})))
    client = httpx2.AsyncClient(transport=transport, base_url="http://desk.test", headers={"Authorization": f"Bearer {TOKEN}"})
    with asyncio.Runner() as runner:

        def sending(method: str, path: str, **options: Any) -> httpx2.Response:
            return runner.run(client.request(method, path, **options))

        yield sending


@settings(max_examples=CASES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    operation=st.sampled_from(EVERY_OPERATION),
    user=st.sampled_from([*["u"] * 9, "", "x" * 300]),
    ids=st.fixed_dictionaries(dict.fromkeys(sorted(NAMES), IDS)),
    app=st.sampled_from(["desk"] * 9 + ["other"]),
    query=QUERIES,
    body=BODIES,
    headers=HEADERS,
)
def test_no_request_makes_the_server_fail(
    send: Callable[..., httpx2.Response],
    operation: HttpOperation,
    user: str,
    ids: dict[str, str],
    app: str,
    query: dict[str, str],
    body: object,
    headers: dict[str, str],
) -> None:
    parts = {
        name: quote(value or "x", safe="", errors="surrogatepass") for name, value in {**ids, "user": user, "app": app}.items()
    }
    path = operation.path.replace(":path", "").format(**parts)
    sent = [(name, value.encode()) for name, value in headers.items()]
    if isinstance(body, dict) and operation.body is not None:
        # A field that an operation does not know is refused; most bodies are to get further.
        body = {name: value for name, value in body.items() if name in fields_of(operation.body)}
    options: dict[str, Any] = {} if operation.method in ("GET", "DELETE") else {"content": json.dumps(body).encode()}
    answer = send(operation.method, path, params={"user": user, **query}, headers=sent, **options)
    has_failed = operation.path.startswith("/run") and "AgentFailedError" in answer.text
    assert answer.status_code < 500 or has_failed, (operation.method, path, answer.status_code, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]
    assert "Traceback" not in answer.text or operation.path.endswith(("/events", "/export", "{session}"))


def fields_of(body: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(body)}
