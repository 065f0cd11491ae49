"""What agents, tools and functions have given, in the inspector: Markdown, failures, transfers, runs of graphs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from runtime.driver.runtime import Runtime
from tests.browser.conftest import Opened, say
from tests.support.agents.web_agents import Gate
from tests.support.runtimes import run_turn

pytestmark = pytest.mark.browser


def test_an_answer_is_shown_as_markdown_of_which_nothing_is_html_or_loaded(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["desk"], "the paper", "s", user)
    page = opened(app="desk", user=user, session="s")
    expect(page.get_by_role("heading", name="Refunds")).to_be_visible()
    answer = page.locator(".markdown")
    expect(answer.locator("strong")).to_have_text("Every")
    expect(answer.get_by_role("cell", name="10")).to_have_css("text-align", "right")
    expect(answer.locator("pre")).to_have_text('print("<script>alert(1)</script>")')
    expect(answer.locator("ol > li > ul > li")).to_have_text("two")
    # The pictures are on another host: the page asks it for nothing, which `opened` checks.
    links = answer.get_by_role("link")
    expect(links).to_have_text(["the terms", "picture: a cat"])
    expect(links.first).to_have_attribute("rel", "noopener noreferrer")
    expect(answer).to_contain_text('<img src="https://pictures.example/dog.png" onerror="alert(1)">')
    assert answer.locator("img, script, [onerror]").count() == 0


def test_what_a_user_says_is_shown_as_it_was_written(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["desk"], "# not a heading\n**no**", "s", user)
    page = opened(app="desk", user=user, session="s")
    expect(page.locator(".event.user .text")).to_have_text("# not a heading\n**no**")
    assert page.locator(".event.user strong, .event.user h3").count() == 0


def test_a_tool_that_failed_is_red_in_the_conversation_its_turn_and_its_timeline(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["desk"], "draw and", "s", user)
    run_turn(runtimes["desk"], "find", "s", user)
    page = opened(app="desk", user=user, session="s")
    answers = page.locator(".answer > summary")
    expect(answers).to_have_text(['← draw {"result":"drawn"}', "✗ find failed: LookupError: order 42 is gone"])
    assert color(answers.last) != color(answers.first)
    failed = page.locator(".turn").get_by_role("button", name="find failed")
    assert color(failed) == color(answers.last)
    failed.click()
    expect(page.locator("pre.json")).to_contain_text("LookupError: order 42 is gone")
    page.get_by_role("button", name="Timeline", exact=True).click()
    expect(page.get_by_role("button", name=re.compile("^error: find failed: LookupError: order 42 is gone"))).to_be_visible()


def color(of: Locator) -> str:
    return str(of.evaluate("element => getComputedStyle(element).color"))


def test_a_failed_turn_that_is_selected_is_not_on_green(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    with pytest.raises(Exception, match="customer"):
        run_turn(runtimes["slow"], "fail", "s", user)
    run_turn(runtimes["slow"], "hi", "s", user)
    page = opened(app="slow", user=user, session="s")
    red, green = (background_of_selected(page, state) for state in ("failed", "finished"))
    assert red[0] > red[1]
    assert green[1] > green[0]


def background_of_selected(page: Page, state: str) -> list[int]:
    """Select the turn in a state; return the red, green and blue of what is behind it."""
    page.get_by_role("button", name=state).first.click()
    here = page.locator(".turn.here", has_text=state)
    expect(here).to_have_count(1)
    color = here.evaluate("element => getComputedStyle(element).backgroundColor")
    return [int(number) for number in re.findall(r"\d+", color)]


def test_a_transfer_is_one_line_with_the_tokens_of_its_call(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["desk"], "a refund", "s", user)
    page = opened(app="desk", user=user, session="s")
    transfer = page.locator(".event").nth(1)
    expect(transfer).to_have_text(re.compile(r"^\s*concierge → billing\s*[\d,]+ → \d+ tokens #3 [\d:]+ [AP]M\s*$"))
    assert page.get_by_text("transfer_to_agent").count() == 0


def test_a_graph_has_what_its_functions_gave_and_its_result(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["press"], " actors", "s", user)
    page = opened(app="press", user=user, session="s")
    expect(page.locator(".node")).to_have_text(["read@1", "check@1", "both@1", "publish@1"])
    expect(page.locator(".event", has_text="check@1")).to_contain_text("gave nothing")
    result = page.locator(".event", has_text="result")
    expect(result).to_have_count(1)
    expect(result.locator(".markdown")).to_have_text("published An actor keeps its state.")
    expect(result.locator("strong")).to_have_text("published")


def test_a_drawing_and_a_timeline_tell_the_node_that_runs_from_those_that_ended(
    opened: Opened, user: str, gates: Path, runtimes: dict[str, Runtime]
) -> None:
    gate = Gate(gates, user)
    runtimes["press"].sessions.create(user, "s")
    page = opened(app="press", user=user, session="s", tab="agent", agent="press")
    say(page, gate.name)
    nodes = page.locator(".drawing .node")
    expect(nodes.filter(has_text="● check")).to_have_class("node running")
    expect(nodes.filter(has_text="stylist")).to_have_class("node taken")
    expect(nodes.filter(has_text="publish")).to_have_class("node ")
    # Nothing of it is cut off.
    drawing, panel = page.locator(".drawing").bounding_box(), page.get_by_role("tabpanel").bounding_box()
    assert drawing is not None
    assert panel is not None
    assert drawing["x"] + drawing["width"] <= panel["x"] + panel["width"]
    assert page.locator(".drawing").evaluate("element => element.scrollWidth <= element.clientWidth")
    page.get_by_role("button", name="Timeline", exact=True).click()
    expect(page.locator(".run .agent")).to_contain_text(["read@1", "check@1, runs now"])
    gate.close()
    expect(page.locator(".run .agent")).to_have_text(["read@1", "writer", "stylist", "check@1", "both@1", "publish@1"])
    expect(page.get_by_role("button", name=re.compile(r"^function: check@1, [\d.]+ m?s"))).to_be_visible()
    expect(page.locator(".drawing .node.taken")).to_have_count(6)
    expect(page.locator(".drawing .node.running")).to_have_count(0)
