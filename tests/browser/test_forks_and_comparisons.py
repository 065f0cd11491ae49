"""Forks of sessions in the inspector, after a question, and two turns side by side."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from runtime.driver.runtime import Runtime
from tests.browser.conftest import Opened, say
from tests.support.runtimes import run_turn

pytestmark = pytest.mark.browser


def test_a_session_is_forked_after_a_question_and_compared_with_its_fork(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["desk"]
    run_turn(rt, "draw", "s", user)
    run_turn(rt, "a letter", "s", user)
    page = opened(app="desk", user=user, session="s", tab="state")
    page.get_by_role("button", name="fork", exact=True).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert len(rt.sessions.list(user)) == 1
    page.get_by_role("button", name="fork", exact=True).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    # The page goes to the new session, which has the first turn and its artifacts.
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.get_by_role("img", name="dot.png")).to_be_visible()
    [fork] = [session.id for session in rt.sessions.list(user) if session.id != "s"]
    expect(page).to_have_url(re.compile(f"session={fork}"))
    say(page, "a letter")
    expect(page.get_by_text("The letter is written.")).to_be_visible()
    expect(page.locator(".turn")).to_have_count(2)
    page.get_by_role("button", name="compare").last.click()
    page.get_by_label("The session of the other turn").fill("s")
    expect(page).to_have_url(re.compile("other=s"))
    page.get_by_label("The other turn", exact=True).select_option(index=1)
    steps = page.get_by_role("list", name="Steps").get_by_role("listitem")
    expect(steps).to_have_count(4)
    expect(page.get_by_text("4 of 4 steps are the same.")).to_be_visible()
    # With the first turn of this session they are others.
    page.get_by_label("The session of the other turn").fill("")
    expect(page.get_by_text("Choose the turn to compare with.")).to_be_visible()
    page.get_by_label("The other turn", exact=True).select_option(index=1)
    expect(page.locator(".pair.differs").first).to_be_visible()
    page.reload()
    expect(page.locator(".pair.differs").first).to_be_visible()
    expect(page.get_by_role("row", name="tokens in")).to_be_visible()
    steps.nth(1).get_by_role("button").first.click()
    expect(page.locator("pre.json")).to_contain_text("functionCall")


def test_a_turn_that_is_paused_waits_in_the_fork_too(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    rt = runtimes["slow"]
    run_turn(rt, "ask", "s", user)
    page = opened(app="slow", user=user, session="s")
    page.get_by_role("button", name="fork", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    # Its paused turn waits in both.
    expect(page.get_by_role("button", name="fork", exact=True)).to_be_visible()
    expect(page).not_to_have_url(re.compile("session=s(&|$)"))
    assert {call.session_id for call in rt.turns.pending(user)} == {session.id for session in rt.sessions.list(user)}
