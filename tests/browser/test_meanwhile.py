"""What happens elsewhere while the inspector shows something: restarts, updates, answers, deletions, rewinds; and odd names."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect
from starlette.requests import Request

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.web.problems import NotAuthenticatedError
from runtime.settings import Settings
from runtime.web import Principal, app_for
from tests.browser.apps import stepped
from tests.browser.conftest import Opened, say
from tests.support.agents.web_agents import Gate
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.servers.web_server import serving
from tests.support.stores.sqlite_lock import SqliteLock

pytestmark = pytest.mark.browser

ODD = "<img src=x onerror=alert(1)>\"'&amp;%2F..#?+ 日本語 🎉"
"""Markup, signs that mean something in addresses, and letters of other scripts."""


def test_a_server_that_is_started_again_in_mid_stream_is_found_again(
    opening: Callable[..., Page], gates: Path, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt, gate = runtimes["slow"], Gate(gates, user)
    rt.sessions.create(user, "s")
    answer = ".event:not(.user) .text"
    with serving(app_for(rt)) as url:
        page = opening(url, f"app=slow&user={user}&session=s", expects_refusals=True)
        say(page, gate.name)
        gate.let(1)
        expect(page.locator(answer)).to_have_text("one ")
    expect(page.get_by_role("status")).to_contain_text("connection lost")
    gate.let(1)
    with serving(app_for(rt), port=int(urlsplit(url).port or 0)):
        expect(page.get_by_role("status")).to_have_text("live")
        expect(page.locator(answer)).to_have_text("one two ")
        gate.close()
        expect(page.locator(answer)).to_have_text(["one two three four"])
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        say(page, "hi")
        expect(page.locator(answer)).to_have_text(["one two three four", "hello"])


def test_a_conversation_goes_on_over_an_update(
    opening: Callable[..., Page], gates: Path, user: str, engine: str, tmp_path: Path
) -> None:
    with Deploy(engine, tmp_path)(stepped(gates), app_name="changing") as rt, serving(app_for(rt)) as url:
        gate = Gate(gates, user)
        rt.sessions.create(user, "s")
        page = opening(url, f"app=changing&user={user}&session=s")
        say(page, gate.name)
        gate.let(1)
        expect(page.locator(".partial .text")).to_have_text("one ")
        rt.update(LlmAgent(name="stepped", model=PatternModel([], default="I am another.")))
        gate.close()
        expect(page.get_by_text("one two three four")).to_be_visible()
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        say(page, "hi")
        expect(page.get_by_text("I am another.")).to_be_visible()


def test_a_page_goes_on_with_the_deployment_that_comes_after(
    opening: Callable[..., Page], gates: Path, engine: str, tmp_path: Path
) -> None:
    deploy = Deploy(engine, tmp_path)
    with deploy(stepped(gates), app_name="after") as rt, serving(app_for(rt)) as url:
        run_turn(rt, "pay", "s", "ada")
        page = opening(url, "app=after&user=ada&session=s", expects_refusals=True)
        expect(page.locator(".question")).to_have_count(1)
    expect(page.get_by_role("status")).to_contain_text("connection lost")
    with deploy(stepped(gates), app_name="after") as rt, serving(app_for(rt), port=int(urlsplit(url).port or 0)):
        expect(page.get_by_role("status")).to_have_text("live")
        page.get_by_role("button", name="Yes", exact=True).click()
        expect(page.locator(".question")).to_have_count(0)
        expect(page.locator(".turn")).to_contain_text("finished")
        expect(page.get_by_text("paid 7").last).to_be_visible()


class Revocable:
    """Credentials of which a test takes some back."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)

    async def __call__(self, request: Request) -> Principal:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            raise NotAuthenticatedError("the token has expired")
        return Principal(user_id="ada")


def test_credentials_that_expire_are_asked_for_anew_and_the_page_goes_on_where_it_was(
    opening: Callable[..., Page], gates: Path, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt, gate, session = runtimes["slow"], Gate(gates, user), f"{user}-s"
    # As JSON Web Tokens are written.
    credentials, renewed = Revocable("head.claims.sign-1"), "head.claims.sign_2"
    rt.sessions.create("ada", session)
    with serving(app_for(rt, auth=credentials)) as url:
        page = opening(url, f"app=slow&user=ada&session={session}&tab=state#token=head.claims.sign-1", expects_refusals=True)
        say(page, gate.name)
        gate.let(1)
        expect(page.locator(".partial .text")).to_have_text("one ")
        page.get_by_label("Message").fill("half a message")
        credentials.tokens = {renewed}
        expect(page.get_by_label("Token of this server")).to_be_visible()
        # Nothing of what was shown stays in sight.
        expect(page.get_by_text("one")).to_have_count(0)
        gate.let(1)
        page.get_by_label("Token of this server").fill(renewed)
        page.get_by_role("button", name="Open").click()
        expect(page.locator(".partial .text")).to_have_text("one two ")
        expect(page.get_by_label("Message")).to_have_value("half a message")
        expect(page.get_by_role("tab", name="State")).to_have_attribute("aria-selected", "true")
        gate.close()
        expect(page.get_by_text("one two three four")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("live")


def test_a_message_that_the_store_could_not_take_is_kept_and_sent_again(
    opening: Callable[..., Page], gates: Path, engine: str, tmp_path: Path
) -> None:
    settings = Settings(store_timeout_s=1.0)
    with Deploy(engine, tmp_path)(stepped(gates), app_name="away", settings=settings) as rt, serving(app_for(rt)) as url:
        run_turn(rt, "hi", "s", "ada")
        page = opening(url, "app=away&user=ada&session=s", expects_refusals=True)
        expect(page.locator(".event")).to_have_count(2)
        with SqliteLock(tmp_path / "sessions.db") as lock:
            say(page, "hello again")
            expect(page.locator(".composer").get_by_role("alert")).to_contain_text("The store is away")
            expect(page.get_by_label("Message")).to_have_value("hello again")
            lock.release()
            page.get_by_label("Message").press("Enter")
            expect(page.locator(".event")).to_have_count(4)
        expect(page.locator(".composer").get_by_role("alert")).to_have_count(0)
        expect(page.get_by_role("status")).to_have_text("live")
        assert [event.text for event in stored(rt, "s")] == ["hi", "hello", "hello again", "hello"]


def test_a_conversation_goes_on_when_a_standby_takes_the_place_of_the_runner(
    opening: Callable[..., Page], gates: Path, user: str, engine: str, tmp_path: Path
) -> None:
    if engine == "local":
        pytest.skip("in one process no Runner is lost alone")
    settings = Settings(spare_hosts=1, standby_runners=True)
    with Deploy(engine, tmp_path)(stepped(gates), app_name="standing", settings=settings) as rt, serving(app_for(rt)) as url:
        gate = Gate(gates, user)
        rt.sessions.create("ada", "s")
        page, figures = opening(url, expects_refusals=True), opening(url, expects_refusals=True)
        page.goto(f"{url}/ui/?app=standing&user=ada&session=s")
        figures.goto(f"{url}/ui/?app=standing&view=figures")
        say(page, gate.name)
        gate.let(1)
        expect(page.locator(".partial .text")).to_have_text("one ")
        until(lambda: len(rt.statistics().runner.standby_pids) == 2)
        lost = rt.statistics().runner
        os.kill(lost.pid, signal.SIGKILL)
        until(lambda: rt.statistics().runner.pid in lost.standby_pids)
        gate.close()
        expect(page.get_by_text("one two three four")).to_be_visible()
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        expect(page.locator(".turn .epoch")).to_have_text("epoch 2")
        # The figures are of the new one.
        expect(figures.get_by_role("region", name="Runners")).to_contain_text(f"pid {rt.statistics().runner.pid}")
        say(page, "hi")
        expect(page.get_by_text("hello", exact=True)).to_be_visible()


def test_a_session_that_another_page_rewinds_and_a_program_begins_anew_is_shown_as_it_is(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["desk"]
    for message in ("draw", "a letter"):
        run_turn(rt, message, "s", user)
    page, other = (opened(app="desk", user=user, session="s", tab="state") for _ in range(2))
    expect(other.get_by_text("The letter is written.")).to_be_visible()
    page.get_by_role("button", name="rewind").nth(0).click()
    page.get_by_role("dialog").get_by_role("button", name="Rewind").click()
    for each in (page, other):
        expect(each.get_by_text("The letter is written.")).to_have_count(0)
        expect(each.locator(".panel > pre")).not_to_contain_text("drawn")
        expect(each.locator(".transfer")).to_contain_text("rewound to before turn")
    run_turn(rt, "hi", "s", user)
    for each in (page, other):
        expect(each.get_by_text("Order 42 is on its way.")).to_be_visible()


def test_a_comparison_says_that_the_session_of_the_other_turn_is_gone(
    opening: Callable[..., Page], url: str, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["desk"]
    run_turn(rt, "hi", "s", user)
    run_turn(rt, "hi", "gone", user)
    [turn], [other] = rt.turns.list(user, "s"), rt.turns.list(user, "gone")
    page = opening(url, expects_refusals=True)
    page.goto(
        f"{url}/ui/?app=desk&user={user}&session=s&turn={turn.invocation_id}&pane=compare"
        f"&other=gone&otherTurn={other.invocation_id}"
    )
    expect(page.get_by_role("list", name="Steps").get_by_role("listitem")).to_have_count(2)
    rt.sessions.delete(user, "gone")
    page.reload()
    expect(page.get_by_label("The session of the other turn")).to_have_value("gone")
    expect(page.get_by_role("region", name="Conversation s")).to_contain_text("gone")
    page.get_by_label("The session of the other turn").fill("")
    expect(page.get_by_text("Choose the turn to compare with.")).to_be_visible()


def test_of_two_pages_that_answer_one_pause_one_is_told_that_it_was_late(
    opened: Opened, opening: Callable[..., Page], url: str, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["slow"]
    run_turn(rt, "pay", "s", user)
    first, late = opened(app="slow", user=user, session="s"), opening(url, expects_refusals=True)
    late.goto(f"{url}/ui/?app=slow&user={user}&session=s")
    for page in (first, late):
        expect(page.locator(".question")).to_have_count(1)
    # The other page does not hear of the answer before it gives its own.
    late.route("**/pending*", lambda route: None)
    late.route("**/events*", lambda route: None)
    first.get_by_role("button", name="Yes", exact=True).click()
    expect(first.locator(".question")).to_have_count(0)
    expect(first.locator(".turn")).to_contain_text("finished")
    late.get_by_role("button", name="No", exact=True).click()
    expect(late.locator(".question").get_by_role("alert")).to_be_visible()
    late.unroute("**/pending*")
    late.unroute("**/events*")
    expect(late.locator(".question")).to_have_count(0)
    expect(late.locator(".turn")).to_contain_text("finished")
    answers = [part.function_response for event in stored(rt, "s", user) if event.content for part in event.content.parts]
    assert [answer.response for answer in answers if answer is not None and answer.name == "pay"][-1] == {"result": "paid 7"}


def test_a_session_that_is_deleted_elsewhere_is_said_to_be_gone(
    opening: Callable[..., Page], url: str, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["desk"]
    run_turn(rt, "draw", "s", user)
    page = opening(url, f"app=desk&user={user}&session=s", expects_refusals=True)
    expect(page.get_by_text("Here it is.")).to_be_visible()
    rt.sessions.delete(user, "s")
    expect(page.get_by_role("status")).to_have_text("deleted: a message begins it anew")
    expect(page.locator(".event")).to_have_count(0)
    expect(page.locator(".conversation", has_text=user)).to_have_count(0)
    # Its first message creates it anew, with nothing of what was.
    say(page, "hi")
    expect(page.get_by_text("Order 42 is on its way.")).to_be_visible()
    expect(page.get_by_text("Here it is.")).to_have_count(0)
    expect(page.get_by_role("status")).to_have_text("live")


def test_a_session_that_is_made_anew_while_the_connection_is_lost_is_read_anew(
    opening: Callable[..., Page], url: str, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["desk"]
    run_turn(rt, "draw", "s", user)
    page = opening(url, f"app=desk&user={user}&session=s", expects_refusals=True)
    expect(page.get_by_text("Here it is.")).to_be_visible()
    page.context.set_offline(True)
    rt.sessions.delete(user, "s")
    for _ in range(3):
        run_turn(rt, "letter", "s", user)
    page.context.set_offline(False)
    expect(page.get_by_text("The letter is written.")).to_have_count(3)
    expect(page.get_by_text("Here it is.")).to_have_count(0)


def test_a_session_that_is_made_anew_before_its_log_is_followed_is_read_anew(
    opening: Callable[..., Page], url: str, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt = runtimes["desk"]
    run_turn(rt, "draw", "s", user)

    def make_anew(route: Route) -> None:
        rt.sessions.delete(user, "s")
        for _ in range(3):
            run_turn(rt, "letter", "s", user)
        route.continue_()

    page = opening(url, expects_refusals=True)
    # The page asks for them between the newest events and those that come.
    page.route("**/sessions/s/turns?*", make_anew, times=1)
    page.goto(f"{url}/ui/?app=desk&user={user}&session=s")
    expect(page.get_by_text("The letter is written.")).to_have_count(3)
    expect(page.get_by_text("Here it is.")).to_have_count(0)


def test_a_rewind_while_a_turn_runs_says_why_it_cannot_be(
    opening: Callable[..., Page], url: str, gates: Path, user: str, runtimes: dict[str, Runtime]
) -> None:
    rt, gate = runtimes["slow"], Gate(gates, user)
    run_turn(rt, "hi", "s", user)
    page = opening(url, f"app=slow&user={user}&session=s", expects_refusals=True)
    say(page, gate.name)
    gate.let(1)
    expect(page.locator(".partial .text")).to_have_text("one ")
    page.get_by_role("button", name="rewind").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Rewind").click()
    expect(page.get_by_role("dialog")).to_contain_text("turn")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    gate.close()
    expect(page.get_by_text("one two three four")).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.get_by_role("button", name="rewind").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Rewind").click()
    expect(page.get_by_text("one two three four")).to_have_count(0)


def test_odd_names_and_long_texts_are_shown_as_they_are(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    rt, odd_user = runtimes["desk"], f"{user} {ODD}"
    long = f"markup {ODD} " + "x" * 50_000
    run_turn(rt, long, f"s/{ODD}", odd_user, state_delta={ODD: ODD})
    page = opened(app="desk")
    page.get_by_label("Search users and sessions").fill(f"{user} <img")
    expect(page.locator(".conversation")).to_have_count(1)
    page.locator(".conversation").click()
    expect(page.locator(".event.user .text")).to_have_text(long)
    expect(page.get_by_text("<b>not bold</b>")).to_be_visible()
    page.get_by_role("tab", name="State").click()
    expect(page.locator("pre.json")).to_contain_text("onerror=alert(1)")
    page.reload()
    expect(page.get_by_role("heading", name=f"s/{ODD}")).to_be_visible()
    say(page, "draw")
    expect(page.get_by_role("img", name="dot.png")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("live")
    for tab in ("Turn", "Usage", "Artifacts", "Requests", "Log"):
        page.get_by_role("tab", name=tab).click()
    page.get_by_role("button", name="Timeline", exact=True).click()
    expect(page.locator(".run").first).to_be_visible()
    page.get_by_role("link", name="Usage").click()
    expect(page.get_by_role("row", name=re.escape(odd_user)).or_(page.get_by_text(odd_user))).to_be_visible()
    assert page.locator("img[src='x'], section b:text-is('not bold')").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400
