"""What operators see of a turn in the inspector: what models were asked, and what agents logged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from runtime.driver.runtime import Runtime
from runtime.web import Principal, StaticTokens, app_for
from tests.browser.conftest import Opened
from tests.support.runtimes import run_turn
from tests.support.servers.web_server import serving

pytestmark = pytest.mark.browser

ADAS_TOKEN = "a-token-of-ada-0123456789"


def test_a_model_call_shows_what_was_asked(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["desk"], "a letter", "s", user)
    page = opened(app="desk", user=user, session="s", tab="requests")
    calls = page.get_by_role("region", name="Model call of concierge")
    expect(calls).to_have_count(2)
    calls.nth(1).get_by_role("button").first.click()
    expect(calls.nth(1).get_by_role("list").last.get_by_role("listitem")).to_have_count(3)
    expect(calls.nth(1)).to_contain_text("→ write_letter")
    expect(calls.nth(1)).to_contain_text("Write a letter.")
    page.reload()
    expect(calls.nth(1)).to_contain_text("Write a letter.")
    expect(calls.nth(0)).not_to_contain_text("Contents")
    # Its number leads to the response, and that back to what was asked for it.
    calls.nth(1).get_by_role("button", name="#4").click()
    expect(page.locator("pre.json")).to_contain_text("The letter is written.")
    page.get_by_role("button", name="what its model was asked").click()
    expect(calls.nth(1)).to_contain_text("Contents")
    page.reload()
    expect(calls.nth(1)).to_contain_text("Contents")
    expect(calls.nth(0)).not_to_contain_text("Contents")


def test_where_nothing_was_recorded_the_page_says_which_setting_records(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["slow"], "hi", "s", user)
    page = opened(app="slow", user=user, session="s", tab="requests")
    expect(page.get_by_role("tabpanel")).to_contain_text("No model call of this turn was recorded.")
    expect(page.get_by_role("tabpanel")).to_contain_text("RAYGROVE_RECORD_REQUESTS=on")


def test_log_lines_and_tracebacks_stand_beside_the_step(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["desk"], "find", "s", user)
    run_turn(runtimes["desk"], "hi", "s", user)
    page = opened(app="desk", user=user, session="s", tab="log")
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("The deployment keeps no line of this turn.")
    # The log of the turn that is chosen, and in it what belongs to the event that is.
    page.locator(".turn button").first.click()
    page.get_by_role("tab", name="Log").click()
    lines = page.get_by_role("list", name="Log lines").get_by_role("listitem")
    expect(lines.filter(has_text="order 42 is late")).to_contain_text("WARNING")
    failed = lines.filter(has_text="tool 'find' of agent 'concierge' failed")
    failed.locator("summary").click()
    expect(failed.locator("pre")).to_contain_text("LookupError: order 42 is gone")
    page.locator(".event", has_text="✗ find").locator("header").click()
    expect(page.get_by_role("heading", name="Logged meanwhile by concierge")).to_be_visible()
    expect(lines.filter(has_text="order 42 is late")).to_be_visible()
    page.get_by_role("tab", name="Log").click()
    expect(page.locator(".line.here", has_text="order 42 is late")).to_be_visible()


def test_users_see_neither_what_models_were_asked_nor_logs(
    opening: Callable[..., Page], user: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["desk"], "find", "s", user)
    with serving(app_for(runtimes["desk"], auth=StaticTokens({ADAS_TOKEN: Principal(user_id=user)}))) as url:
        page = opening(url, f"app=desk&user={user}&session=s&tab=requests#token={ADAS_TOKEN}")
        panel = page.get_by_role("tabpanel")
        expect(panel).to_have_text("What models were asked is for administrators.")
        expect(page.get_by_role("tab", name="Log")).to_have_count(0)
        page.locator(".event", has_text="✗ find").locator("header").click()
        expect(page.locator("pre.json")).to_contain_text("find")
        expect(panel).not_to_contain_text("Traceback")
        page.goto(f"{url}/ui/?app=desk&user={user}&session=s&tab=log")
        expect(panel).to_have_text("What agents logged is for administrators.")
