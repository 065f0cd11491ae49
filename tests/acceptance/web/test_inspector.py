"""What the inspector asks of the server: its own files, who it is, and lists that are searched and read by pages."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.web import monitoring
from runtime.frontends.web.app import OPERATIONS
from runtime.frontends.web.ui.page import STATIC
from runtime.web import Principal, StaticTokens, app_for
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.web_server import TIMEOUT_S, serving

SOURCE = Path(__file__).parents[3] / "runtime/frontends/web/ui/src"
ADDRESSES = re.findall(r'^ {2}"([A-Z]+) (\S+)",$', (SOURCE / "addresses.js").read_text(), re.MULTILINE)
"""What the page may ask, out of its sources: method, and template below /v1/."""

ADA, BACK_END, OPERATOR = "the-token-of-ada-0123456", "the-token-of-a-back-end-01", "the-token-of-an-operator-0"
TOKENS = {ADA: Principal(user_id="ada"), BACK_END: Principal(), OPERATOR: Principal(is_admin=True)}


def with_token(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def guarded(rt: Runtime) -> Iterator[httpx2.Client]:
    """A client of a server that asks for tokens."""
    with (
        serving(app_for(rt, auth=StaticTokens(TOKENS))) as url,
        httpx2.Client(base_url=url, timeout=TIMEOUT_S) as client,
    ):
        yield client


async def test_the_page_is_served_with_rules_that_let_it_reach_this_server_only(client: httpx2.AsyncClient) -> None:
    page = await client.get("/ui/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    rules = dict(rule.strip().split(" ", 1) for rule in page.headers["content-security-policy"].split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' blob:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert (page.headers["x-content-type-options"], page.headers["referrer-policy"]) == ("nosniff", "no-referrer")
    for name in ("inspector.js", "inspector.css", "icon.svg"):
        assert name in page.text
    assert "http:" not in page.text
    assert "https:" not in page.text


async def test_its_files_are_sent_compressed_and_only_when_they_have_changed(client: httpx2.AsyncClient) -> None:
    async with client.stream("GET", "/ui/inspector.js", headers={"Accept-Encoding": "gzip"}) as response:
        packed = b"".join([piece async for piece in response.aiter_raw()])
    assert response.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == (STATIC / "inspector.js").read_bytes()
    plain = await client.get("/ui/inspector.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    again = await client.get("/ui/inspector.js", headers={"If-None-Match": plain.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert plain.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/ui/sources.sha256", "/ui/..%2fpage.py", "/ui/static/inspector.js", "/ui/%00"])
async def test_no_other_file_is_served(client: httpx2.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


def test_below_another_application_it_is_found_where_it_is_mounted(rt: Runtime) -> None:
    mounted = TestClient(Starlette(routes=[Mount("/agents", app_for(rt))]), base_url="http://127.0.0.1", client=("127.0.0.1", 5))
    for path in ("/agents/ui", "/agents/"):
        led = mounted.get(path, headers={"Accept": "text/html"}, follow_redirects=False)
        assert led.headers["location"] == "/agents/ui/"
    assert 'src="inspector.js"' in mounted.get("/agents/ui/").text


def test_credentials_learn_what_they_allow(guarded: httpx2.Client) -> None:
    nothing = {"isKnown": False, "needsCredentials": True, "userId": None, "isAdmin": False}
    assert guarded.get("/v1/me").json() == nothing
    assert guarded.get("/v1/me", headers=with_token("not-a-token-at-all-01234")).json() == nothing
    known = {**nothing, "isKnown": True}
    assert guarded.get("/v1/me", headers=with_token(ADA)).json() == {**known, "userId": "ada"}
    assert guarded.get("/v1/me", headers=with_token(BACK_END)).json() == known
    assert guarded.get("/v1/me", headers=with_token(OPERATOR)).json() == {**known, "isAdmin": True}


async def test_without_credentials_the_machine_itself_may_do_everything(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/v1/me")).json() == {
        "isKnown": True,
        "needsCredentials": False,
        "userId": None,
        "isAdmin": True,
    }


def test_the_page_needs_no_credentials_and_what_it_asks_for_does(guarded: httpx2.Client) -> None:
    for path in ("/ui/", "/ui/inspector.js"):
        assert guarded.get(path).status_code == 200
    for method, template in ADDRESSES:
        if template != "me":
            path = template.format(app="desk", session="s", turn="t", name="a.txt", batch="b")
            assert guarded.request(method, f"/v1/{path}").status_code == 401, (method, template)


def test_the_page_asks_nothing_but_operations_of_the_api() -> None:
    """So nobody sees by it what belongs to another user: no operation gives that, as test_who_may_what.py says of each."""
    # What is not in the list is not sent: there is one place that sends, and it looks there.
    sending = re.compile(r"\b(fetch|XMLHttpRequest|EventSource|WebSocket|sendBeacon|importScripts|import)\s*\(")
    sources = {path.name: re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL) for path in SOURCE.glob("**/*.js")}
    sent = [(name, each) for name, text in sources.items() for each in sending.findall(text)]
    assert sent == [("api.js", "fetch")]
    assert re.search(r"if \(!isKnown\(method, path\)\) throw .*\n(.*\n){3,8}.*\bfetch\(", (SOURCE / "api.js").read_text())
    assert len(ADDRESSES) > 20
    known = {(each.method, each.path) for each in OPERATIONS}
    assert [each for each in ADDRESSES if (each[0], f"/v1/{each[1]}") not in known] == []


async def test_figures_of_the_last_minutes_are_shared_and_come_as_they_are_new(client: httpx2.AsyncClient, rt: Runtime) -> None:
    path = "/v1/apps/desk/statistics/recent"
    answers = [(await client.get(path)).json() for _ in range(3)]
    assert len(answers[0]["samples"]) == len(answers[2]["samples"])
    newest = answers[0]["samples"][-1]
    assert newest["counts"]["turns"] == answers[0]["now"]["runner"]["counts"]["turns"]
    assert set(newest["counts"]) >= {"running", "waiting", "events", "spares", "connections", "memoryBytes"}
    assert (await client.get(f"{path}?after={newest['atS']}")).json()["samples"] == []
    # A tree may have thousands of agents that live: theirs are among the actors.
    assert answers[0]["now"]["agents"] == {}
    assert "agents" not in answers[0]["now"]["runner"]
    assert (await client.get(f"{path}?after=-1")).status_code == 400


def test_figures_are_sampled_as_long_as_the_server_runs(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "EVERY_S", 0.02)
    monkeypatch.setattr(monitoring, "FRESH_S", 3_600.0)
    app = app_for(rt)
    with serving(app) as url:
        until(lambda: len(httpx2.get(f"{url}/v1/apps/desk/statistics/recent").json()["samples"]) > 3)


async def test_an_agent_says_of_which_version_of_the_tree_it_is(client: httpx2.AsyncClient, rt: Runtime) -> None:
    [version] = rt.versions()
    [root] = (await client.get("/v1/apps/desk/agents?depth=1")).json()["agents"]
    assert root["version"] == version.id
    assert {child["version"] for child in root["children"]} == {""}


def test_lists_of_a_user_are_searched_among_the_users_own(guarded: httpx2.Client, rt: Runtime) -> None:
    run_turn(rt, "hi", "s", "bob")
    for path in ("/v1/apps/desk/sessions?q=s", "/v1/apps/desk/turns?q=s", "/v1/apps/desk/pending"):
        assert "bob" not in guarded.get(path, headers=with_token(ADA)).text


async def test_sessions_and_turns_are_searched_by_parts_of_names(client: httpx2.AsyncClient, user: str, rt: Runtime) -> None:
    for session in ("Pears 1", "pears 2", "plums"):
        run_turn(rt, "hi", session, user)

    async def found(kind: str, name: str, query: str) -> list[str]:
        """The ids of all pages."""
        given, before = [], ""
        while True:
            page = (await client.get(f"/v1/apps/desk/{kind}?{query}{before}")).json()
            given += [each[name] for each in page[kind]]
            if "next" not in page:
                return given
            before = f"&before={page['next']}"

    assert await found("sessions", "id", f"user={user}&q=PEARS&limit=1") == ["pears 2", "Pears 1"]
    assert await found("sessions", "id", f"q={user[5:]}&limit=2") == ["plums", "pears 2", "Pears 1"]
    assert await found("sessions", "id", f"user={user}&q=apples") == []
    assert await found("turns", "sessionId", f"user={user}&q=PEARS&limit=1") == ["pears 2", "Pears 1"]
    assert await found("turns", "sessionId", f"q={user[5:]}&state=finished") == ["plums", "pears 2", "Pears 1"]
    assert await found("turns", "sessionId", f"q={user[5:]}&state=failed") == []


def test_the_agents_right_below_one_are_read_by_pages(tmp_path: Path) -> None:
    below = [
        LlmAgent(name=f"a{n}", model=PatternModel([]), sub_agents=[LlmAgent(name=f"b{n}", model=PatternModel([]))])
        for n in range(7)
    ]
    with (
        Deploy("local", tmp_path)(LlmAgent(name="top", model=PatternModel([]), sub_agents=below), app_name="wide") as rt,
        serving(app_for(rt)) as url,
    ):
        pages = [
            httpx2.get(f"{url}/v1/apps/wide/agents?depth=1&limit=4&offset={offset}").json()["agents"][0]
            for offset in (0, 3, 6, 9)
        ]
        [refused] = [httpx2.get(f"{url}/v1/apps/wide/agents?offset=-1")]
    assert [[child["name"] for child in page["children"]] for page in pages] == [
        ["a0", "a1", "a2"],
        ["a3", "a4", "a5"],
        ["a6"],
        [],
    ]
    assert [(page["childCount"], page["hidden"]) for page in pages] == [(7, 11), (7, 11), (7, 13), (7, 14)]
    assert pages[0]["children"][0]["childCount"] == 1
    assert refused.status_code == 400
