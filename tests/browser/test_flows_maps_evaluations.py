"""Flows, maps and evaluations in the inspector: boards, how far runs are, what failed, and scores."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from runtime.driver.runtime import Runtime
from tests.browser.apps import two_cases
from tests.browser.conftest import Opened
from tests.support.polling import until
from tests.support.runtimes import run_turn

pytestmark = pytest.mark.browser


def run_of(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Runs").get_by_role("listitem").filter(has_text=name)


def test_a_map_shows_how_far_it_is_what_has_failed_and_where(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    rt, goes_on = runtimes["slow"], threading.Event()

    def inputs() -> Iterator[str]:
        yield "hi"
        yield "fail"
        goes_on.wait()
        yield "hello"

    def run() -> None:
        list(rt.map(inputs(), name=user, user_id=user, concurrency=1, total=3))

    mapping = threading.Thread(target=run)
    mapping.start()
    try:
        until(lambda: any(batch.name == user and batch.done == 2 for batch in rt.batches.list()))
        page = opened(app="slow", view="batches")
        expect(run_of(page, user)).to_contain_text("map, running")
        expect(run_of(page, user)).to_contain_text("2 of 3 · 1 failed")
        run_of(page, user).get_by_role("button").click()
        failed = page.get_by_role("list", name="Inputs that failed").get_by_role("listitem")
        expect(failed).to_have_count(1)
        expect(failed).to_contain_text("AgentFailedError")
        # The address has what is open.
        page.reload()
        expect(failed).to_contain_text("fail")
    finally:
        goes_on.set()
        mapping.join()
    expect(run_of(page, user)).to_contain_text("map, finished")
    expect(run_of(page, user)).to_contain_text("3 of 3 · 1 failed")
    failed.get_by_role("link").click()
    expect(page.locator(".event .error")).to_contain_text("KeyError")
    expect(page).to_have_url(re.compile(f"user={user}"))
    page.go_back()
    expect(failed).to_have_count(1)
    # Keys lead there, and a second look closes what is open.
    run_of(page, user).get_by_role("button").click()
    expect(failed).to_have_count(0)
    page.keyboard.press("5")
    expect(page.get_by_role("heading", name="Figures")).to_be_visible()
    page.keyboard.press("6")
    expect(page.get_by_role("heading", name="Maps and evaluations")).to_be_visible()


def test_an_evaluation_shows_scores_by_case_and_metric(
    opened: Opened, runtimes: dict[str, Runtime], tmp_path_factory: pytest.TempPathFactory, engine: str
) -> None:
    file = tmp_path_factory.mktemp("evaluation") / f"greetings-{engine}.json"
    # This thread has the event loop of the browser's client, and may not wait for a turn.
    evaluating = threading.Thread(target=two_cases, args=(runtimes["slow"], file, "hello", "never"))
    evaluating.start()
    evaluating.join()
    page = opened(app="slow", view="batches")
    run = run_of(page, f"greetings-{engine}.json")
    expect(run).to_contain_text("evaluation, finished")
    expect(run).to_contain_text("response_match_score 0.75")
    run.get_by_role("button").click()
    cases = page.get_by_role("list", name="Cases").get_by_role("listitem")
    expect(page.get_by_text("response_match_score at least 0.8")).to_be_visible()
    expect(cases).to_have_count(2)
    expect(cases.nth(0).get_by_role("img", name="passed")).to_be_visible()
    expect(cases.nth(0)).to_contain_text("response_match_score 1.00 passes")
    expect(cases.nth(1).get_by_role("img", name="failed")).to_be_visible()
    expect(cases.nth(1)).to_contain_text("response_match_score 0.50 does not pass")
    # Each turn of a case, in the address.
    cases.nth(1).get_by_role("button", name="wrong").click()
    page.reload()
    turns = page.get_by_role("list", name="Turns of the case").get_by_role("listitem")
    expect(turns).to_have_count(2)
    expect(turns.nth(0)).to_contain_text("response_match_score 1.00 passes")
    expect(turns.nth(1)).to_contain_text("expected toolspay(amount=7)")
    expect(turns.nth(1)).to_contain_text("response_match_score 0.00 does not pass")
    expect(turns.nth(1)).to_contain_text("expected answernever")
    turns.nth(1).get_by_role("link", name="turn 2").click()
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator(".turn").nth(1)).to_have_class("turn here")
    page.go_back()
    expect(turns).to_have_count(2)
    cases.nth(1).get_by_role("button", name="wrong").click()
    expect(turns).to_have_count(0)
    cases.nth(1).get_by_role("link").click()
    expect(page.locator(".event", has_text="hello").first).to_be_visible()


def test_a_batch_that_is_not_kept_says_so(opened: Opened) -> None:
    page = opened(app="line", view="batches")
    expect(page.get_by_text("None is kept.")).to_be_visible()


def test_a_flow_shows_its_tasks_what_they_need_and_what_came_of_them(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["errands"]
    run_turn(rt, "go", "s", user)
    page = opened(app="errands", user=user, session="s")
    page.get_by_role("button", name="Board").click()
    tasks = page.get_by_role("list", name="Tasks").get_by_role("listitem")
    expect(tasks).to_have_count(5)
    expect(tasks.nth(0)).to_contain_text("✓ list successful")
    expect(tasks.nth(0)).to_contain_text("← list is done")
    expect(tasks.nth(1)).to_contain_text("the bridge is closed")
    expect(tasks.nth(2)).to_contain_text("needs ✓ list")
    expect(tasks.nth(3)).to_contain_text("it needs 'cross', which was failed")
    expect(tasks.nth(4)).to_contain_text("pending")
    expect(page.get_by_role("img", name="What needs what").locator("path.edge")).to_have_count(4)
    # The address has the board, and it goes on as the turn does.
    page.reload()
    expect(tasks.nth(4)).to_contain_text("pending")
    [call] = rt.turns.pending(user)
    list(rt.answer({call.call_id: {"ok": True}}, user_id=user, session_id="s"))
    expect(tasks.nth(4)).to_contain_text("✓ cook successful")
    tasks.nth(2).get_by_role("button", name="buyer").click()
    expect(page.get_by_role("heading", name="buyer")).to_be_visible()


def test_a_conversation_without_flows_has_no_board(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["line"], "hi", "s", user)
    page = opened(app="line", user=user, session="s", pane="board")
    expect(page.get_by_text("third is done.")).to_be_visible()
    expect(page.get_by_role("button", name="Board")).to_have_count(0)
