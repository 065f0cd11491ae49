"""The board of a flow in the inspector."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from runtime import Runtime
from tests.browser.conftest import Opened
from tests.support.runtimes import run_turn

pytestmark = pytest.mark.browser


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
