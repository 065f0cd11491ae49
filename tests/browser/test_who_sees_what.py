"""Nobody sees what belongs to another user: tried with every address that the page may ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from actors import Part
from runtime.driver.runtime import Runtime
from runtime.frontends.web.app import OPERATIONS
from runtime.web import Principal, StaticTokens, app_for
from tests.support.runtimes import run_turn, stored
from tests.support.servers.page_addresses import ADDRESSES, PUBLIC, SOURCE, body_of, path_of
from tests.support.servers.web_server import serving

pytestmark = pytest.mark.browser

ADA, BOB, EVE = (f"a-token-of-{name}-0123456789" for name in ("ada", "bob", "eve"))
TOKENS = {ADA: Principal(user_id="ada"), BOB: Principal(user_id="bob"), EVE: Principal(user_id="eve")}
FETCH = """async ({ method, path, body, token }) => {
    const ending = new AbortController();
    setTimeout(() => ending.abort(), 5000);
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json", Prefer: "respond-async" };
    const response = await fetch(path, { method, headers, body: body ? JSON.stringify(body) : null, signal: ending.signal });
    return [response.status, await response.text()];
}"""


@pytest.fixture(scope="module")
def guarded(runtimes: dict[str, Runtime]) -> Iterator[str]:
    with serving(app_for(runtimes["slow"], auth=StaticTokens(TOKENS))) as url:
        yield url


@pytest.fixture(scope="module")
def secret(runtimes: dict[str, Runtime]) -> str:
    """Bob's session: a turn that waits for an answer, whose id is returned, state and an artifact."""
    rt = runtimes["slow"]
    run_turn(rt, "ask", "secret", "bob", invocation_id="t", state_delta={"color": "secret words"})
    rt.artifacts.save("bob", "secret", "notes.txt", Part(text="secret words"))
    return "t"


def test_the_page_asks_nothing_but_operations_of_the_api() -> None:
    # What is not in the list is not sent: there is one place that sends, and it looks there.
    sending = re.compile(r"\b(fetch|XMLHttpRequest|EventSource|WebSocket|sendBeacon|importScripts|import)\s*\(")
    sources = {path.name: re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL) for path in SOURCE.parent.glob("**/*.js")}
    sent = [(name, each) for name, text in sources.items() for each in sending.findall(text)]
    assert sent == [("api.js", "fetch")]
    assert re.search(r"if \(!isKnown\(method, path\)\) throw .*\n(.*\n){3,8}.*\bfetch\(", (SOURCE.parent / "api.js").read_text())
    assert len(ADDRESSES) > 20
    known = {(each.method, each.path) for each in OPERATIONS}
    assert [each for each in ADDRESSES if (each[0], f"/v1/{each[1]}") not in known] == []


def test_nothing_of_another_user_comes_from_any_address_of_the_page(
    opening: Callable[..., Page], guarded: str, runtimes: dict[str, Runtime], secret: str
) -> None:
    rt = runtimes["slow"]
    before = stored(rt, "secret", "bob")
    # What the API says of itself.
    for_operators = {
        each.path.removeprefix("/v1/") for each in OPERATIONS if "For administrators." in (each.handle.__doc__ or "")
    }
    page = opening(guarded, expects_refusals=True)
    page.goto(f"{guarded}/ui/icon.svg")
    for method, template in ADDRESSES:
        path = path_of(template, app="slow", session="secret", turn=secret, name="notes.txt")
        for user in ("?user=bob", ""):
            status, body = ask(page, method, path + user, ADA, body_of(method, template))
            said = (method, path + user, status, body)
            if template in PUBLIC:
                assert status == 200, said
            elif user or template in for_operators:
                assert status == 403, said
            assert "secret words" not in body, said
            assert "paused" not in body, said
    assert stored(rt, "secret", "bob") == before
    assert [each.invocation_id for each in rt.turns.pending("bob")] == [secret]
    assert rt.sessions.get("bob", "forked") is None
    # With a token of his own he has all of it, so the list is asked as the page asks.
    status, body = ask(page, "GET", "/v1/apps/slow/sessions/secret/artifacts/notes.txt", BOB)
    assert (status, body) == (200, "secret words")


def ask(page: Page, method: str, path: str, token: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    status, text = page.evaluate(FETCH, {"method": method, "path": path, "body": body, "token": token})
    return status, text


def test_a_user_who_opens_the_address_of_anothers_session_sees_nothing_of_it(
    opening: Callable[..., Page], guarded: str, secret: str
) -> None:
    page = opening(guarded, expects_refusals=True)
    page.goto(f"{guarded}/ui/?app=slow&user=bob&session=secret#token={EVE}")
    # Requests name no user: the token does, and Eve has no such session.
    expect(page.get_by_role("status")).to_contain_text("new")
    expect(page.locator(".event")).to_have_count(0)
    for view in ("figures", "batches"):
        page.goto(f"{guarded}/ui/?app=slow&view={view}")
        expect(page.get_by_text("for administrators")).to_be_visible()
        expect(page.get_by_role("navigation")).not_to_contain_text("Figures")
