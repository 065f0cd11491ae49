"""What waits for a person, in the inspector: answered by yes or no, by a form, by JSON; and gone everywhere then."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from actors import Budget, RunConfig
from runtime.driver.runtime import Runtime
from tests.browser.conftest import Opened
from tests.support.runtimes import run_turn, stored

pytestmark = pytest.mark.browser


def question(page: Page) -> Locator:
    return page.locator(".question")


def test_a_yes_is_given_in_the_inbox_and_the_question_is_gone_in_every_browser(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["desk"], "a refund", "s", user)
    page, other = opened(app="desk", view="inbox"), opened(app="desk", user=user, session="s")
    expect(question(other)).to_contain_text("refund(amount=80)")
    letter = page.locator(".letter", has_text=user)
    letter.get_by_role("button", name="Yes").click()
    expect(letter).to_have_count(0)
    expect(other.get_by_text("Done: 80 euros are yours.")).to_be_visible()
    expect(question(other)).to_have_count(0)
    assert runtimes["desk"].turns.pending(user, "s") == []


def test_a_no_is_given_in_the_conversation(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["slow"], "pay", "s", user)
    page = opened(app="slow", user=user, session="s")
    page.get_by_role("button", name="No", exact=True).click()
    expect(question(page)).to_have_count(0)
    expect(page.locator(".turn")).to_contain_text("finished")
    assert "paid" not in stored(runtimes["slow"], "s", user)[-1].text


def test_a_result_is_given_as_json(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["slow"], "ask", "s", user)
    page = opened(app="slow", user=user, session="s")
    page.get_by_label("Answer as JSON").fill("{")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("alert")).to_contain_text("JSON")
    page.get_by_label("Answer as JSON").fill('{"approved": true}')
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".text").last).to_have_text("got [{'approved': True}]")


@pytest.mark.parametrize("way", ["yes", "no", "form"])
def test_a_budget_that_is_used_up_is_asked_about(opened: Opened, user: str, way: str, runtimes: dict[str, Runtime]) -> None:
    rt, session = runtimes["desk"], f"s-{way}"
    budget = Budget(llm_calls=1, at_limit="ask")
    run_turn(rt, "a letter", session, user, run_config=RunConfig(budget=budget))
    page = opened(app="desk", view="inbox")
    letter = page.locator(".letter", has_text=f"{user} / {session}")
    expect(letter).to_contain_text("would go beyond the budget of")
    if way == "form":
        letter.get_by_label("More model calls").fill("3")
        letter.get_by_role("button", name="Answer").click()
    else:
        letter.get_by_role("button", name=way.capitalize(), exact=True).click()
    expect(letter).to_have_count(0)
    page.goto(page.url.replace("view=inbox", f"user={user}&session={session}"))
    expect(page.locator(".turn")).to_contain_text("failed" if way == "no" else "finished")
    expect(page.get_by_text("The letter is written.")).to_have_count(0 if way == "no" else 1)


def test_a_form_is_made_of_the_schema_of_a_question(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["shop"], "hi", "s", user)
    page = opened(app="shop", view="inbox")
    letter = page.locator(".letter", has_text=user)
    expect(letter).to_contain_text("What would you like?")
    letter.get_by_label("fruit").select_option("plums")
    letter.get_by_label("How many").fill("3")
    letter.get_by_label("wrapped").check()
    # A list that is asked for again leaves what was written.
    with page.expect_response(lambda response: "/pending" in response.url):
        pass
    expect(letter.get_by_label("How many")).to_have_value("3")
    letter.get_by_role("button", name="Answer").click()
    expect(letter).to_have_count(0)
    page.goto(page.url.replace("view=inbox", f"user={user}&session=s"))
    expect(page.get_by_text("It is packed.")).to_be_visible()
    outputs = [event.output for event in stored(runtimes["shop"], "s", user) if event.output is not None]
    assert "3 plums, wrapped: True" in outputs
