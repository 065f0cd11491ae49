"""What was used, in the inspector: by users, agents, models and days, with money, and the turns that cost most."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from actors import Budget, RunConfig
from runtime.driver.runtime import Runtime
from runtime.web import Principal, StaticTokens, app_for
from tests.browser.conftest import Opened
from tests.support.runtimes import run_turn
from tests.support.servers.web_server import serving

pytestmark = pytest.mark.browser

TOKENS = {"the-token-of-frugal-0123456789": Principal(user_id="frugal")}


def test_usage_is_shown_by_users_models_days_and_turns(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    rt = runtimes["desk"]
    for message in ("hi", "a letter", "hi"):
        run_turn(rt, message, "s", user)
    run_turn(rt, "hi", "s", "frugal")
    page = opened(app="desk", view="usage")
    rows = page.get_by_role("region", name="What was used").get_by_role("row")
    mine, total = rt.usage(user).total, rt.usage().total
    assert mine.money is not None
    assert total.money is not None
    expect(rows.filter(has_text=user)).to_contain_text(f"{mine.money:.2f}")
    expect(rows.nth(1)).to_contain_text(f"{total.money:.2f}")
    # Who has used most stands above who has used less.
    names = rows.get_by_role("rowheader").all_inner_texts()
    assert names.index(user) < names.index("frugal")
    page.get_by_role("button", name="Models").click()
    expect(rows.filter(has_text="metered")).to_have_count(1)
    page.get_by_role("button", name="Days").click()
    expect(rows.get_by_role("rowheader").nth(1)).to_have_text(next(reversed(rt.usage(by="day").groups)))
    page.get_by_label("Since when").select_option("the last 7 days")
    page.reload()
    expect(page.get_by_role("button", name="Days")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Since when")).to_have_value("7")
    page.get_by_role("button", name="Turns").click()
    costly = rt.usage(by="turn").turns[0]
    expect(rows.get_by_role("rowheader").nth(1)).to_contain_text(f"{costly.user_id} / {costly.session_id}")
    page.get_by_role("button", name=f"{costly.user_id} / {costly.session_id}").first.click()
    expect(page.get_by_role("heading", name="By agent, of this turn")).to_be_visible()


def test_how_far_each_limit_of_a_turn_is_used_stands_beside_the_turn(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["desk"]
    own = Budget(llm_calls=1, tokens=100_000, at_limit="ask")
    run_turn(rt, "a letter", "s", user, run_config=RunConfig(budget=own, user_daily_budget=Budget(money=50, model="cheap")))
    page = opened(app="desk", user=user, session="s", tab="turn")
    rows = page.get_by_role("region", name="Budgets").get_by_role("row")
    [turn] = rt.turns.list(user)
    budgets = rt.turns.describe(user, "s", turn.invocation_id).budgets
    expect(rows).to_have_count(1 + len(budgets))
    calls = rows.filter(has_text="model calls")
    expect(calls).to_contain_text("100 %")
    expect(calls).to_contain_text(f"turn '{turn.invocation_id}'")
    expect(calls).to_contain_text("a person is asked")
    expect(rows.filter(has_text=f"user '{user}' today")).to_contain_text("model cheap")
    # An answer gives as much again, which is used as well.
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("The letter is written.")).to_be_visible()


def test_users_see_no_budgets_of_turns(opening: Callable[..., Page], runtimes: dict[str, Runtime]) -> None:
    rt = runtimes["desk"]
    run_turn(rt, "a letter", "bounded", "frugal", run_config=RunConfig(budget=Budget(llm_calls=1, at_limit="ask")))
    with serving(app_for(rt, auth=StaticTokens(TOKENS))) as url:
        page = opening(url, f"app=desk&user=frugal&session=bounded&tab=turn#token={next(iter(TOKENS))}")
        expect(page.get_by_role("heading", name="paused")).to_be_visible()
        expect(page.get_by_role("region", name="Budgets")).to_have_count(0)


def test_a_user_sees_own_usage_only(opening: Callable[..., Page], user: str, runtimes: dict[str, Runtime]) -> None:
    rt = runtimes["desk"]
    run_turn(rt, "hi", "s", user)
    run_turn(rt, "hi", "s", "frugal")
    with serving(app_for(rt, auth=StaticTokens(TOKENS))) as url:
        page = opening(url, f"app=desk&view=usage#token={next(iter(TOKENS))}")
        rows = page.get_by_role("region", name="What was used").get_by_role("row")
        money = rt.usage("frugal").total.money
        assert money is not None
        assert money < (rt.usage().total.money or 0)
        expect(rows.last).to_contain_text(f"{money:.2f}")
        expect(page.get_by_role("button", name="Users")).to_have_count(0)
        page.get_by_role("button", name="Turns").click()
        expect(rows.filter(has_text="frugal / s").first).to_be_visible()
        expect(rows.filter(has_text=user)).to_have_count(0)
