"""Who may what: credentials, users that reach no other user's anything, sites, and limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.applications import Starlette
from starlette.routing import Mount

from actors import Budget, Part, RunConfig
from actors.errors import DefinitionError
from runtime.driver.runtime import Runtime
from runtime.frontends.web.app import ADK_OPERATIONS, OPERATIONS
from runtime.frontends.web.operation import HttpOperation
from runtime.frontends.web.serving import WebServer
from runtime.web import JwtAuth, LoopbackOnly, Principal, StaticTokens, app_for
from tests.support.servers.web_server import TIMEOUT_S, serving

ADA, BOB, DESK, BOSS = (f"{name}-token-0123456789" for name in ("ada", "bob", "desk", "boss"))
TOKENS = {
    ADA: Principal(user_id="ada"),
    BOB: Principal(user_id="bob"),
    DESK: Principal(),
    BOSS: Principal(is_admin=True),
}


@pytest.fixture(scope="module")
def guarded(rt: Runtime) -> Iterator[str]:
    app = app_for(rt, auth=StaticTokens(TOKENS), max_streams_per_user=2, max_body_bytes=10_000, keep_alive_s=0.2)
    with serving(app) as url:
        yield url


@pytest.fixture
async def web(guarded: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=guarded, timeout=TIMEOUT_S) as client:
        yield client


def as_(token: str, **headers: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}", **headers}}


BODIES: Mapping[str, object] = {
    "NewTurn": {"message": "hi"},
    "NewAnswers": {"answers": {"call": True}},
    "NewSession": {"id": "s"},
    "SessionChange": {"stateDelta": {"x": 1}},
    "RewindTo": {"invocationId": "t"},
    "ForkAt": {"invocationId": "t", "id": "forked"},
    "Remember": {"sessionId": "s"},
    "MemoryQuery": {"query": "secret"},
    "NewSchedule": {"name": "daily", "message": "hi", "everyS": 3_600},
    "ScheduleChanges": {"paused": True},
    "OpenTurns": {},
    "WantedTurns": {},
    "AnswerAll": {"value": True},
    "LimitChanges": {"model": "gemini-2.5-flash", "maxConcurrency": 1},
    "RunMessage": {"message": "hi"},
}

ADK_BODY: Mapping[str, object] = {
    "appName": "desk",
    "sessionId": "s",
    "newMessage": {"parts": [{"text": "hi"}]},
    "stateDelta": {"x": 1},
    "filename": "notes",
    "artifact": {"text": "mine"},
}


async def send(
    web: httpx2.AsyncClient, operation: HttpOperation, token: str, user: str = "", **headers: str
) -> tuple[httpx2.Response, bytes]:
    """Send a request of an operation, about the session `s` and its turn `t`."""
    parts = {
        "app": "desk",
        "session": "s",
        "turn": "t",
        "schedule": "daily",
        "batch": "b",
        "run": "r",
        "name": "notes",
        "version": "0",
        "user": quote(user or "ada", safe=""),
    }
    path = operation.path.replace(":path", "").format(**parts)
    if user and "{user}" not in operation.path:
        path += f"?user={parts['user']}"
    options: dict[str, Any] = {"json": BODIES[operation.body.__name__]} if operation.body is not None else {}
    if operation in ADK_OPERATIONS and operation.method in ("POST", "PATCH"):
        options = {"json": {**ADK_BODY, "userId": user or "ada"}}
    if operation.takes_media:
        options["content"] = b"bytes"
    request = web.build_request(operation.method, path, **options, **as_(token, **headers))
    response = await web.send(request, stream=True)
    body = b""
    if response.headers["content-type" if "content-type" in response.headers else "date"].startswith("text/event-stream"):
        async for line in response.aiter_lines():
            body += line.encode()
            if line in (": keep-alive", "event: end"):
                break
    else:
        body = await response.aread()
    await response.aclose()
    return response, body


async def test_a_user_sees_the_usage_of_that_user_alone(web: httpx2.AsyncClient, rt: Runtime) -> None:
    for user in ("ada", "bob", "bob"):
        await rt.run(user_id=user, session_id="used", message="hi")

    async def users(token: str, query: str = "") -> list[str]:
        return list((await web.get(f"/v1/apps/desk/usage?by=user{query}", **as_(token))).json()["groups"])

    assert await users(ADA) == await users(ADA, "&user=ada") == ["ada"]
    assert (await web.get("/v1/apps/desk/usage?user=bob", **as_(ADA))).status_code == 403
    assert {"ada", "bob"} <= set(await users(DESK))
    assert await users(DESK, "&user=bob") == ["bob"]


async def test_a_user_reaches_no_other_users_anything_by_no_route(web: httpx2.AsyncClient, rt: Runtime) -> None:
    # Bob's session, with everything in it that there is, and of the same ids as those that Ada asks for.
    await rt.run(user_id="bob", session_id="s", message="secret", invocation_id="t", state_delta={"user:color": "secret"})
    paused = await rt.run(user_id="bob", session_id="s2", message="pay")
    await rt.aio.memory.add_session("bob", "s")
    await web.put("/v1/apps/desk/sessions/s/artifacts/user%3Anotes?user=bob", content=b"secret", **as_(DESK))
    await rt.aio.schedules.create("daily", user_id="bob", session_id="s", message="secret", every=86_400)
    before, schedule = rt.sessions.get("bob", "s"), rt.schedules.get("daily", user_id="bob")
    for operation in OPERATIONS:
        if operation.is_open:
            continue
        for headers in ({}, {"Accept": "text/event-stream"}):
            response, body = await send(web, operation, ADA, user="bob", **headers)
            needs_no_user = operation.path in ("/v1/apps", "/v1/apps/{app}/agents", "/metrics")
            is_for_admins = operation.path.endswith(("/actors", "/statistics", "/metrics"))
            if not needs_no_user or is_for_admins:
                assert response.status_code == 403, (operation.method, operation.path, response.status_code, body)
            assert b"secret" not in body
            # As herself she has none of it.
            response, body = await send(web, operation, ADA, **headers)
            assert b"secret" not in body
            assert b"bob" not in body, (operation.method, operation.path)
    pending = (await web.get("/v1/apps/desk/pending", **as_(BOB))).json()["calls"]
    assert [call["invocationId"] for call in pending] == [paused.invocation_id]
    answers = f"/v1/apps/desk/sessions/s2/turns/{paused.invocation_id}/answers"
    assert (await web.post(answers, json={"answers": {pending[0]["callId"]: True}}, **as_(ADA))).status_code in (404, 409)
    retried = await web.post(answers.replace("/answers", "/retry"), **as_(BOB))
    assert (retried.status_code, retried.json()["type"]) == (409, "TurnStateError")
    assert rt.sessions.get("bob", "s") == before
    assert rt.schedules.get("daily", user_id="bob") == schedule


NEARLY_ADA = ("Ada", "ADA", "aDa", "ada/", "ada.", "ada ", " ada", "ada%", "\u0430da")
"""Names that are nearly that of a user: the first letter of the last one is Cyrillic."""


@pytest.mark.parametrize("name", NEARLY_ADA)
async def test_a_token_of_a_user_reaches_no_user_of_nearly_the_same_name_by_no_route(
    web: httpx2.AsyncClient, rt: Runtime, name: str
) -> None:
    if name == name.strip():
        # With the ids that the requests name.
        await rt.run(user_id=name, session_id="s", message="secret", invocation_id="t", state_delta={"user:color": "secret"})
        await rt.aio.artifacts.save(name, "s", "notes", Part(text="secret"))
        await rt.aio.memory.add_session(name, "s")
        await rt.aio.schedules.create("daily", user_id=name, session_id="s", message="secret", every=86_400)
    for operation in (*OPERATIONS, *ADK_OPERATIONS):
        if operation.is_open or operation.users == "none":
            continue
        response, body = await send(web, operation, ADA, user=name)
        assert response.status_code in (403, 404), (operation.method, operation.path, response.status_code, body)
        assert b"secret" not in body


async def test_a_user_reaches_no_other_users_anything_by_adks_paths(web: httpx2.AsyncClient, rt: Runtime) -> None:
    await rt.run(user_id="bob", session_id="adk", message="secret", invocation_id="t")
    await rt.aio.artifacts.save("bob", "adk", "notes", Part(text="secret"))
    before = rt.sessions.get("bob", "adk")
    parts = {"app": "desk", "session": "adk", "name": "notes", "version": "0", "user": "bob"}
    body = {**ADK_BODY, "userId": "bob", "sessionId": "adk"}
    for operation in ADK_OPERATIONS:
        is_about_users = "{user}" in operation.path or operation.path.startswith("/run")
        path = operation.path.replace(":path", "").format(**parts)
        for query in ("", "?user=ada"):
            options: dict[str, Any] = {"json": body} if operation.method in ("POST", "PATCH") else {}
            answer = await web.request(operation.method, path + query, **options, **as_(ADA))
            assert answer.status_code == (403 if is_about_users else 200), path
            assert "secret" not in answer.text
    # By the id of a turn, as herself, she finds none of Bob's.
    joined = {"userId": "ada", "appName": "desk", "sessionId": "adk", "invocationId": "t"}
    assert (await web.post("/run", json=joined, **as_(ADA))).status_code == 404
    assert rt.sessions.get("bob", "adk") == before


async def test_users_cannot_change_what_all_users_share(web: httpx2.AsyncClient, rt: Runtime) -> None:
    shared = {"app:greeting": "boo"}
    for method, path, body in (
        ("POST", "/v1/apps/desk/sessions", {"state": shared}),
        ("PATCH", "/v1/apps/desk/sessions/shared", {"stateDelta": shared}),
        ("POST", "/v1/apps/desk/sessions/shared/turns", {"message": "hi", "stateDelta": shared}),
    ):
        refused = await web.request(method, path, json=body, **as_(ADA))
        assert (refused.status_code, refused.json()["type"]) == (403, "NotAllowedError")
    assert (await web.post("/v1/apps/desk/sessions?user=ada", json={"state": shared}, **as_(DESK))).status_code == 201


async def test_users_may_lower_the_limits_and_the_budget_of_turns_and_not_raise_them(rt: Runtime) -> None:
    config = RunConfig(max_llm_calls=3, timeout=60, budget=Budget(llm_calls=3, seconds=60))
    async with client_of(app_for(rt, auth=StaticTokens(TOKENS), run_config=config)) as web:

        async def post(token: str, config: object) -> httpx2.Response:
            path = "/v1/apps/desk/sessions/limits/turns?user=ada"
            return await web.post(path, json={"message": "hi", "config": config}, **as_(token))

        for lower in ({}, {"maxLlmCalls": 2}, {"timeout": 5, "maxTransfers": 0}):
            assert (await post(ADA, lower)).status_code == 200
        for budget in ({}, {"llmCalls": 2}, {"tokens": 10_000}, {"seconds": 5.5, "toolCalls": 9}):
            assert (await post(ADA, {"budget": budget})).status_code == 200
        options = ({"maxLlmCalls": 4}, {"maxLlmCalls": 0}, {"timeout": 61}, {"maxTransfers": 33})
        for higher in (*options, {"budget": {"llmCalls": 4}}, {"budget": {"seconds": 61}}):
            assert (await post(ADA, higher)).status_code == 403
            assert (await post(DESK, higher)).status_code == 200
        for wrong in ({"llmCalls": -1}, {"calls": 4}):
            assert (await post(ADA, {"budget": wrong})).status_code == 400
        assert "BudgetExceededError" in (await post(ADA, {"budget": {"llmCalls": 0}})).text


async def test_users_may_not_give_themselves_more_of_a_budget(rt: Runtime) -> None:
    app = app_for(rt, auth=StaticTokens(TOKENS), run_config=RunConfig(budget=Budget(llm_calls=0, at_limit="ask")))
    path = "/v1/apps/desk/sessions/asked/turns"
    async with client_of(app) as web:
        await web.post(f"{path}?user=ada", json={"message": "hi"}, **as_(ADA))
        [asked] = await rt.aio.turns.pending("ada")
        to, given = f"{path}/{asked.invocation_id}/answers?user=ada", {"llm_calls": 5}
        response = {"id": f"{asked.call_id}:confirm", "name": "adk_request_confirmation", "response": {"confirmed": True}}
        message = {"role": "user", "parts": [{"functionResponse": response}]}
        of_adk = {"appName": "desk", "userId": "ada", "sessionId": "asked", "newMessage": message}
        for url, body in (
            (to, {"answers": {asked.call_id: given}}),
            (to, {"answers": {asked.call_id: True}}),
            (f"{path}?user=ada", {"message": message}),
            ("/run", of_adk),
        ):
            refused = await web.post(url, json=body, **as_(ADA))
            assert refused.status_code == 403, url
        assert (await web.post(to, json={"answers": {asked.call_id: given}}, **as_(DESK))).status_code == 200
        await web.post(f"{path}?user=ada", json={"message": "hi"}, **as_(ADA))
        [asked] = await rt.aio.turns.pending("ada")
        to = f"{path}/{asked.invocation_id}/answers?user=ada"
        ended = await web.post(to, json={"answers": {asked.call_id: False}}, **as_(ADA))
        assert "BudgetExceededError" in ended.text


async def test_credentials_are_asked_for_and_looked_at(web: httpx2.AsyncClient) -> None:
    for headers in ({}, {"Authorization": "Basic abc"}, {"Authorization": f"Bearer {ADA}x"}, {"Authorization": "Bearer"}):
        refused = await web.get("/v1/apps", headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (401, "NotAuthenticatedError")
        assert refused.headers["www-authenticate"] == "Bearer"
    assert (await web.get("/healthz")).status_code == 200
    assert (await web.get("/metrics", **as_(DESK))).status_code == 403
    assert (await web.get("/metrics", **as_(BOSS))).status_code == 200


async def test_what_users_code_and_models_say_of_their_errors_is_for_administrators(web: httpx2.AsyncClient) -> None:
    session = "/v1/apps/desk/sessions/failing"
    run = {
        "appName": "desk",
        "userId": "ada",
        "sessionId": "failing",
        "newMessage": {"role": "user", "parts": [{"text": "fail"}]},
    }
    for token, is_told in ((ADA, False), (DESK, False), (BOSS, True)):
        sse = as_(token, Accept="text/event-stream")
        said = [
            await web.post(f"{session}/turns?user=ada", json={"message": "fail"}, **as_(token)),
            await web.post(f"{session}/turns?user=ada", json={"message": "fail"}, **sse),
            await web.post("/run", json=run, **as_(token)),
            await web.post("/run_sse", json=run, **as_(token)),
        ]
        invocation_id = said[0].json()["invocationId"]
        paths = (
            *("", "/events", "/events?newest_first=true&limit=1", "/export", "/turns"),
            *(f"/turns/{invocation_id}", f"/turns/{invocation_id}/result", f"/turns/{invocation_id}/events"),
        )
        for path in paths:
            said.append(await web.get(f"{session}{path}{'&' if '?' in path else '?'}user=ada", **as_(token)))
        said.append(await web.get("/v1/apps/desk/turns?user=ada", **as_(token)))
        said.append(await web.get("/apps/desk/users/ada/sessions/failing", **as_(token)))
        for answer in said:
            assert ("customer" in answer.text) == is_told, answer.request.url
            assert "Error" in answer.text
        # Where the code failed is in streams and in the log.
        places = [place for place, answer in enumerate(said) if "Traceback" in answer.text or "web_agents.py" in answer.text]
        assert bool(places) == is_told
        assert not is_told or {1, 5} <= set(places), places


async def test_other_sites_and_other_names_are_refused(web: httpx2.AsyncClient, url: str, guarded: str, rt: Runtime) -> None:
    for origin, status in (("https://evil.example", 403), ("null", 403), (guarded.replace("http", "https"), 403), (guarded, 200)):
        answer = await web.get("/v1/apps", **as_(ADA, Origin=origin))
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers
    # Where a proxy speaks TLS to browsers, this server does not.
    behind = {"Origin": guarded.replace("http", "https"), "X-Forwarded-Proto": "https"}
    assert (await web.get("/v1/apps", **as_(ADA, **behind))).status_code == 200
    foreign = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert (await web.options("/v1/apps", headers=foreign)).status_code == 403
    for application in (app_for(rt), app_for(rt, auth=LoopbackOnly())):
        async with client_of(application) as elsewhere:
            assert (await elsewhere.get("/v1/apps")).status_code == 421
    async with httpx2.AsyncClient(base_url=url) as open_to_loopback:
        for host, status in (
            ("evil.example", 421),
            ("localhost", 200),
            ("127.0.0.1:1", 200),
            ("[::1]", 200),
            ("a@localhost", 421),
        ):
            assert (await open_to_loopback.get("/v1/apps", headers={"Host": host})).status_code == status
    with serving(app_for(rt, allowed_origins=["https://desk.example"])) as allowing:
        async with httpx2.AsyncClient(base_url=allowing) as client:
            site = {"Origin": "https://desk.example"}
            assert (await client.get("/v1/apps", headers=site)).headers["access-control-allow-origin"] == site["Origin"]
            preflight = await client.options("/v1/apps", headers={**site, "Access-Control-Request-Method": "POST"})
            assert (preflight.status_code, "POST" in preflight.headers["access-control-allow-methods"]) == (204, True)


async def test_streams_and_bodies_are_bounded(web: httpx2.AsyncClient) -> None:
    path = "/v1/apps/desk/sessions/s3/events"
    await web.post("/v1/apps/desk/sessions", json={"id": "s3"}, **as_(ADA))
    streams = [web.stream("GET", path, **as_(ADA, Accept="text/event-stream")) for _ in range(2)]
    for stream in streams:
        await stream.__aenter__()
    refused = await web.get(path, **as_(ADA, Accept="text/event-stream"))
    assert (refused.status_code, refused.json()["type"]) == (429, "TooManyStreamsError")
    assert refused.headers["retry-after"] == "5"
    # A turn that could not be followed is not begun: the client will ask again.
    assert (await web.post("/v1/apps/desk/sessions/s3/turns", json={"message": "hi"}, **as_(ADA))).status_code == 429
    assert (await web.get("/v1/apps/desk/sessions/s3/turns", **as_(ADA))).json() == {"turns": []}
    for stream in streams:
        await stream.__aexit__(None, None, None)
    async with asyncio.timeout(TIMEOUT_S):
        while (
            again := await web.send(web.build_request("GET", path, **as_(ADA, Accept="text/event-stream")), stream=True)
        ).is_error:
            await again.aclose()
    await again.aclose()
    large = msgspec.json.encode({"message": "x" * 10_001})
    for content in (large, pieces(large)):
        sent = as_(ADA, **{"Content-Type": "application/json"})
        assert (await web.post("/v1/apps/desk/sessions/s3/turns", content=content, **sent)).status_code == 413


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 1_000):
        yield body[start : start + 1_000]


async def test_json_web_tokens(rt: Runtime) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    auth = JwtAuth(issuer="https://id.example", audience="desk", key=public, algorithms=["EdDSA"])
    claims = {"iss": "https://id.example", "aud": "desk", "sub": "ada", "exp": time.time() + 60}
    async with client_of(app_for(rt, auth=auth, allowed_hosts=None)) as web:

        async def status(changes: Mapping[str, object], path: str = "/v1/apps/desk/sessions", signer: Any = key) -> int:
            given = {name: value for name, value in {**claims, **changes}.items() if value is not None}
            token = jwt.encode(given, signer, algorithm="EdDSA")
            return (await web.get(path, **as_(token))).status_code

        assert await status({}) == 200
        assert await status({}, "/v1/apps/desk/sessions?user=bob") == 403
        assert await status({}, "/metrics") == 403
        assert await status({"scope": "raygrove:admin other"}, "/metrics") == 200
        any_user = {"scope": ["raygrove:any_user"]}
        for program in ({"sub": None}, {"sub": "desk", "client_id": "desk"}, {"sub": "desk", "azp": "desk"}):
            assert await status({**any_user, **program}, "/v1/apps/desk/sessions?user=bob") == 200
        for user in ({}, {"client_id": "desk"}, {"sub": 1}):
            assert await status({**any_user, **user}, "/v1/apps/desk/sessions?user=bob") in (401, 403)
        for wrong in ({"aud": "other"}, {"iss": "x"}, {"exp": time.time() - 60}, {"exp": None}, {"sub": None}, {"sub": 1}):
            assert await status(wrong) == 401
        assert await status({}, signer=other) == 401
        for forged in (jwt.encode(claims, "", algorithm="none"), jwt.encode(claims, "x" * 40, algorithm="HS256")):
            assert (await web.get("/v1/apps", **as_(forged))).status_code == 401


def client_of(app: Starlette) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://desk.test")


async def test_without_credentials_only_this_machine_is_served(rt: Runtime) -> None:
    app = app_for(rt, auth=LoopbackOnly(), allowed_hosts=["desk.test"])
    for address, status in (("127.0.0.1", 200), ("::1", 200), ("192.0.2.7", 403)):
        transport = httpx2.ASGITransport(app, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://desk.test") as web:
            assert (await web.get("/v1/apps")).status_code == status
    for host in ("0.0.0.0", "192.0.2.7", "::", "desk.test"):
        with pytest.raises(DefinitionError, match="needs credentials"):
            WebServer(app, host, 0)


async def test_an_application_can_be_mounted_in_another(rt: Runtime) -> None:
    whole = Starlette(routes=[Mount("/agents", app_for(rt, auth=StaticTokens(TOKENS)))])
    async with client_of(whole) as web:
        made = await web.post("/agents/v1/apps/desk/sessions", json={"id": "m/1"}, **as_(ADA))
        assert made.headers["location"] == "/agents/v1/apps/desk/sessions/m%2F1"
        assert (await web.get(made.headers["location"], **as_(ADA))).json()["id"] == "m/1"


def test_definitions_of_credentials_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_bytes(msgspec.json.encode({ADA: {"user_id": "ada"}, BOSS: {"is_admin": True}}))
    StaticTokens.from_file(path)
    path.write_text('{"a-long-enough-token": {"user": "ada"}}')
    with pytest.raises(DefinitionError, match="unknown field `user`"):
        StaticTokens.from_file(path)
    for tokens in ({}, {"short": Principal()}):
        with pytest.raises(DefinitionError):
            StaticTokens(tokens)
    for wrong in (
        {},
        {"key": "k", "jwks_url": "u"},
        {"key": "k", "algorithms": ["none"]},
        {"key": "k", "algorithms": ["HS256", "RS256"]},
    ):
        with pytest.raises(DefinitionError):
            JwtAuth(issuer="i", audience="a", **wrong)


async def test_of_turns_asked_for_at_once_none_is_begun_whose_client_is_refused(web: httpx2.AsyncClient) -> None:
    async def asked(session_id: str) -> bool:
        turns = f"/v1/apps/desk/sessions/{session_id}/turns"
        sent = web.build_request("POST", turns, json={"message": "hi"}, **as_(BOB, Accept="text/event-stream"))
        response = await web.send(sent)
        begun = (await web.get(turns, **as_(BOB))).json().get("turns", [])
        assert len(begun) == (1 if response.status_code == 200 else 0), (response.status_code, begun)
        return response.status_code == 200

    accepted = await asyncio.gather(*(asked(f"at-once-{number}") for number in range(8)))
    assert any(accepted)


async def test_only_administrators_look_for_errors(web: httpx2.AsyncClient) -> None:
    for token, status in ((ADA, 403), (DESK, 403), (BOSS, 200)):
        reply = await web.get("/v1/apps/desk/turns?error=secret&user=ada", **as_(token))
        assert reply.status_code == status, reply.text
    assert (await web.get("/v1/apps/desk/turns?agent=root&since=60", **as_(ADA))).status_code == 200
