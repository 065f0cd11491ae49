"""The first requests of a newcomer: the address in a browser, a typo, a number out of range. The schema says the same."""

from __future__ import annotations

from typing import Any

import httpx2
import jsonschema  # type: ignore[import-untyped]
import pytest

from runtime.driver.runtime import Runtime
from runtime.web import Principal, StaticTokens, app_for
from tests.support.servers.web_server import TIMEOUT_S, serving

TOKEN = "a-token-that-is-long-enough-to-be-one"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def turns(user: str, session: str = "s") -> str:
    return f"/v1/apps/desk/sessions/{session}/turns?user={user}"


async def test_a_browser_is_led_to_the_inspector(client: httpx2.AsyncClient) -> None:
    led = await client.get("/", headers=BROWSER)
    assert (led.status_code, led.headers["location"], led.headers["vary"]) == (307, "/ui/", "Accept")
    assert (await client.get("/")).json()["links"]["inspector"] == "/ui/"


def test_without_the_inspector_a_browser_gets_a_page_that_says_what_is_here_and_can_do_nothing(rt: Runtime) -> None:
    with serving(app_for(rt, inspector=False)) as url:
        page = httpx2.get(url, headers=BROWSER)
        assert httpx2.get(f"{url}/ui/").status_code == 404
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for said in ("<code>desk</code>", 'href="/openapi.json"', 'href="/healthz"', 'href="/readyz"', "docs/service.md"):
        assert said in page.text
    assert "dev-ui" not in page.text
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert (page.headers["x-content-type-options"], page.headers["x-frame-options"]) == ("nosniff", "DENY")
    assert (page.headers["vary"], page.headers["cache-control"]) == ("Accept", "no-store")


async def test_a_program_gets_the_same_as_json_and_every_link_leads_somewhere(client: httpx2.AsyncClient) -> None:
    given = (await client.get("/")).json()
    assert given["apps"] == ["desk"]
    for place in given["links"].values():
        assert (await client.get(place)).status_code == 200
    assert (await client.post("/")).status_code == 405


def test_a_server_that_needs_credentials_does_not_name_its_apps_without_them(rt: Runtime) -> None:
    auth = StaticTokens({TOKEN: Principal(is_admin=True)})
    with serving(app_for(rt, auth=auth, inspector=False)) as url, httpx2.Client(base_url=url, timeout=TIMEOUT_S) as client:
        for headers in (BROWSER, {}):
            given = client.get("/", headers=headers)
            assert given.status_code == 200
            assert "desk" not in given.text
        given = client.get("/", headers={"Authorization": f"Bearer {TOKEN}"})
        assert given.json()["apps"] == ["desk"]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("turns", {"mesage": "hi"}, "unknown field `mesage`. Did you mean 'message'?"),
        ("turns", {"message": "hi", "config": {"maxLlmCals": 1}}, "`maxLlmCals` - at `$.config`. Did you mean 'maxLlmCalls'?"),
        ("turns", {"message": "hi", "zzz": 1}, "`zzz`. There are: message, stateDelta, config, autoCreateSession"),
        ("", {"stat": {}}, "unknown field `stat`. Did you mean 'state'?"),
    ],
)
async def test_a_body_with_a_misspelt_field_is_refused_with_the_one_that_was_meant(
    client: httpx2.AsyncClient, user: str, path: str, body: dict[str, Any], sentence: str
) -> None:
    place = turns(user) if path else f"/v1/apps/desk/sessions?user={user}"
    refused = await client.post(place, json=body)
    assert refused.status_code == 400
    assert refused.json()["detail"].endswith(sentence)


@pytest.mark.parametrize(("given", "meant"), [("limt=3", "limit"), ("usr=ada", "user")])
async def test_a_query_with_a_misspelt_field_is_refused_with_the_one_that_was_meant(
    client: httpx2.AsyncClient, user: str, given: str, meant: str
) -> None:
    refused = await client.get(f"{turns(user)}&{given}")
    assert (refused.status_code, refused.json()["detail"].endswith(f"Did you mean '{meant}'?")) == (400, True)


HUGE = 2**64


async def test_numbers_out_of_range_are_refused_in_words_of_the_request_and_by_the_schema(
    client: httpx2.AsyncClient, user: str
) -> None:
    events = f"/v1/apps/desk/sessions/s/events?user={user}"
    for refused in (
        await client.get(f"{events}&after_seq={HUGE}"),
        await client.get(f"{events}&before_seq={HUGE}"),
        await client.get(f"/v1/apps/desk/actors?offset={HUGE}"),
        await client.post(turns(user), json={"message": "hi", "config": {"maxLlmCalls": HUGE}}),
        await client.post(turns(user), json={"message": "hi", "config": {"maxTransfers": HUGE}}),
    ):
        assert refused.status_code == 400
        assert "Expected `int` <= 9007199254740991" in refused.json()["detail"]
    described = (await client.get("/openapi.json")).json()
    after = parameter(described, "/v1/apps/{app}/sessions/{session}/events", "get", "after_seq")
    assert not is_valid(HUGE, after)
    assert is_valid(5, after)


async def test_what_is_empty_and_may_not_be_is_refused_by_the_schema_too(client: httpx2.AsyncClient, user: str) -> None:
    described = (await client.get("/openapi.json")).json()
    path = "/v1/apps/{app}/sessions/{session}/turns"
    for refused in (
        await client.get(turns(user) + "&before="),
        await client.post(turns(user), json={"message": "hi"}, headers={"Idempotency-Key": ""}),
        await client.post(f"/v1/apps/desk/sessions/s/turns/t/answers?user={user}", json={"answers": {}}),
    ):
        assert refused.status_code == 400
    for name, method in (("before", "get"), ("Idempotency-Key", "post")):
        assert not is_valid("", parameter(described, path, method, name))
        assert is_valid("a", parameter(described, path, method, name))
    answers = described["components"]["schemas"]["NewAnswers"]["properties"]["answers"]
    assert answers["minProperties"] == 1


async def test_turns_of_a_session_that_was_deleted_are_not_found(client: httpx2.AsyncClient, user: str) -> None:
    await client.post(f"/v1/apps/desk/sessions?user={user}", json={"id": "s"})
    assert (await client.get(turns(user))).json() == {"turns": []}
    await client.delete(f"/v1/apps/desk/sessions/s?user={user}")
    gone = await client.get(turns(user))
    assert (gone.status_code, gone.json()["type"]) == (404, "SessionNotFoundError")


async def test_an_artifact_may_be_empty_and_the_schema_says_so(client: httpx2.AsyncClient, user: str) -> None:
    await client.post(f"/v1/apps/desk/sessions?user={user}", json={"id": "s"})
    saved = await client.put(f"/v1/apps/desk/sessions/s/artifacts/empty.txt?user={user}")
    assert saved.status_code == 201
    described = (await client.get("/openapi.json")).json()
    taken = described["paths"]["/v1/apps/{app}/sessions/{session}/artifacts/{name}"]["put"]["requestBody"]
    assert taken["required"] is False


def parameter(described: Any, path: str, method: str, name: str) -> Any:
    return next(each["schema"] for each in described["paths"][path][method]["parameters"] if each["name"] == name)


def is_valid(value: object, schema: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))
