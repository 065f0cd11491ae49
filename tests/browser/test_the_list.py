"""Lists of the inspector: a conversation or a turn that is not among the newest has all that these have."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from runtime.driver.runtime import Runtime
from tests.browser.conftest import Opened
from tests.support.runtimes import run_turn

pytestmark = pytest.mark.browser


def test_a_session_has_its_first_words_its_state_and_how_long_it_took_however_old_it_is(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["desk"]
    run_turn(rt, "  Where is\norder 42? ", "oldest", user)
    run_turn(rt, "refund", "paused", user)
    # More turns than the page reads of an app.
    messages = [{"message": f"Hello number {number}"} for number in range(210)]
    assert all(output.error is None for output in rt.map(messages, user_id=user))
    page = opened(app="desk", q=user)
    rows = page.locator(".conversation")
    expect(rows.first.locator(".name")).to_have_text(re.compile(r"^Hello number \d+$"))
    expect(rows.first.get_by_role("img", name="finished")).to_be_visible()
    conversations = page.get_by_role("list", name="Conversations")
    oldest = rows.filter(has_text="oldest")
    # The next page is read at the end of one, and shown a moment later.
    to_the_end = "list => { list.scrollTop = list.scrollHeight; return list.textContent.includes('oldest'); }"
    page.wait_for_function(to_the_end, arg=conversations.element_handle())
    expect(oldest.locator(".name")).to_have_text("Where is order 42?")
    expect(oldest.locator(".who")).to_have_text(f"oldest · {user} · concierge")
    expect(oldest.get_by_role("img", name="finished")).to_be_visible()
    expect(oldest.locator("small")).to_have_text(re.compile(r"\d m?s · \d+ tok"))
    expect(rows.filter(has_text="paused").get_by_role("img", name="paused")).to_be_visible()


def test_a_list_of_turns_has_the_words_that_began_each(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["desk"], "hello", "s", user)
    run_turn(runtimes["desk"], "a refund please", "s", user)
    page = opened(app="desk", q=user, state="paused")
    expect(page.locator(".conversation .name")).to_have_text(["a refund please"])


def test_the_first_words_of_a_session_come_with_its_first_turn(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    runtimes["desk"].sessions.create(user, "empty")
    page = opened(app="desk", q=user)
    expect(page.locator(".conversation .name")).to_have_text(["empty"])
    run_turn(runtimes["desk"], "<b>hello</b>", "empty", user)
    expect(page.locator(".conversation .name")).to_have_text(["<b>hello</b>"])


def test_all_turns_of_a_long_conversation_have_their_state(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    for number in range(205):
        run_turn(runtimes["desk"], f"hello {number}", "s", user)
    page = opened(app="desk", user=user, session="s", seq="1")
    first = page.locator(".turn").first
    expect(page.locator(".event.user").first).to_contain_text("hello 0")
    expect(first).to_contain_text("finished")
    expect(first).to_contain_text(re.compile(r"\d m?s"))


def test_turns_in_which_a_tool_failed_are_marked_and_found(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["desk"], "find my order", "wrong", user)
    run_turn(runtimes["desk"], "draw", "right", user)
    page = opened(app="desk", q=user)
    rows = page.locator(".conversation")
    expect(rows).to_have_count(2)
    expect(rows.locator(".error")).to_have_text(["✗ 1 tool"])
    expect(rows.filter(has=page.locator(".error"))).to_contain_text("wrong")
    expect(rows.first.locator("small")).to_have_text(re.compile(r"\d m?s · \d+ tok$"))
    page.get_by_label("State of turns").select_option("tools failed")
    expect(rows).to_have_count(1)
    expect(rows.locator(".name")).to_have_text("find my order")
    page.reload()
    expect(rows).to_have_count(1)
    expect(page.get_by_label("State of turns")).to_have_value("tools failed")
