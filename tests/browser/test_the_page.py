"""The page as a whole: who may see what, its looks on small and dark screens, and for those who do not see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from runtime import BatchItem, CaseTurn
from runtime.driver.runtime import Runtime
from runtime.web import Principal, StaticTokens, app_for
from tests.browser.conftest import Opened, say
from tests.support.runtimes import run_turn
from tests.support.servers.web_server import serving

pytestmark = pytest.mark.browser

AXE = Path("runtime/frontends/web/ui/node_modules/axe-core/axe.min.js")
TOKENS = {"a-token-of-ada-0123456789": Principal(user_id="ada"), "an-operators-token-0123456789": Principal(is_admin=True)}

PLACES = {
    "conversation": {"app": "desk", "user": "looks", "session": "s", "seq": "3", "tab": "event"},
    "timeline": {"app": "desk", "user": "looks", "session": "s", "pane": "timeline", "tab": "usage"},
    "turn": {"app": "desk", "user": "looks", "session": "s", "tab": "turn", "turn": "e-first"},
    "state": {"app": "desk", "user": "looks", "session": "s", "tab": "state"},
    "artifacts": {"app": "desk", "user": "looks", "session": "s", "tab": "artifacts"},
    "requests": {"app": "desk", "user": "looks", "session": "s", "tab": "requests", "seq": "2"},
    "log": {"app": "desk", "user": "looks", "session": "found", "tab": "log", "seq": "3"},
    "usage": {"app": "desk", "view": "usage", "by": "turn"},
    "list": {"app": "desk", "q": "looks", "state": "paused"},
    "inbox": {"app": "shop", "view": "inbox"},
    "confirmations": {"app": "desk", "view": "inbox"},
    "figures": {"app": "desk", "view": "figures"},
    "batches": {"app": "desk", "view": "batches"},
    "tree": {"app": "desk", "view": "tree", "agent": "billing"},
    "board": {"app": "errands", "user": "looks", "session": "s", "pane": "board"},
    "compare": {"app": "desk", "user": "looks", "session": "s", "pane": "compare", "otherTurn": "e-first"},
    "graph": {"app": "shop", "user": "looks", "session": "s", "tab": "agent", "agent": "shop"},
    "nodes": {"app": "press", "user": "looks", "session": "s", "pane": "timeline", "tab": "turn"},
    "outputs": {"app": "press", "user": "looks", "session": "s", "tab": "agent", "agent": "press"},
    "failed": {"app": "desk", "user": "looks", "session": "found", "seq": "3", "tab": "event"},
    "markdown": {"app": "desk", "user": "looks", "session": "paper"},
}
"""The views, each by its address."""


@pytest.fixture(scope="module", autouse=True)
def shown(runtimes: dict[str, Runtime]) -> None:
    """Something to show in each view."""
    run_turn(runtimes["desk"], "draw", "s", "looks", invocation_id="e-first")
    run_turn(runtimes["desk"], "a refund", "s", "looks")
    run_turn(runtimes["desk"], "find", "found", "looks")
    run_turn(runtimes["desk"], "paper", "paper", "looks")
    run_turn(runtimes["shop"], "hi", "s", "looks")
    run_turn(runtimes["press"], "hi", "s", "looks")
    run_turn(runtimes["errands"], "go", "s", "looks")
    told = runtimes["desk"].batches.begin("evaluation", "looks.json", total=4, thresholds={"response_match_score": 0.8})
    scores = {"response_match_score": 0.5}
    turns = [CaseTurn(invocation_id="e-first", message="draw", expected="a picture", answer="Here it is.", scores=scores)]
    case = BatchItem(position=0, name="late", user_id="looks", session_id="s", at_s=1.0, scores=scores, turns=turns)
    told.note(done=1, failed=1, scores=case.scores, item=case)
    told.finish()
    PLACES["batches"].update(batch=told.id, item="0")


@pytest.fixture(scope="module")
def guarded(runtimes: dict[str, Runtime]) -> Iterator[str]:
    """A server that asks for tokens."""
    with serving(app_for(runtimes["desk"], auth=StaticTokens(TOKENS))) as url:
        yield url


@pytest.mark.parametrize("place", PLACES)
def test_axe_finds_nothing_serious(opening: Callable[..., Page], url: str, place: str) -> None:
    # What the check adds to the page is a script, which the page's own rules would refuse.
    page = opening(url, bypass_csp=True)
    page.goto(f"{url}/ui/?" + "&".join(f"{name}={value}" for name, value in PLACES[place].items()))
    expect(page.get_by_role("navigation")).to_be_visible()
    page.wait_for_load_state("load")
    expect(page.locator(".row, .question, .chart, .sums, .task, .step, .batch").first).to_be_visible()
    assert serious_faults(page) == []


def test_axe_finds_nothing_serious_in_what_asks(opening: Callable[..., Page], url: str, guarded: str) -> None:
    page = opening(url, "app=desk&user=looks&session=found", bypass_csp=True)
    page.get_by_role("button", name="rewind").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious_faults(page) == []
    page.goto(f"{url}/ui/?app=none-of-that-name")
    expect(page.get_by_role("link", name="desk")).to_be_visible()
    assert serious_faults(page) == []
    page = opening(guarded, bypass_csp=True)
    page.goto(f"{guarded}/ui/")
    expect(page.get_by_label("Token of this server")).to_be_visible()
    assert serious_faults(page) == []


def serious_faults(page: Page) -> list[str]:
    """What axe-core finds, in light and in dark, and in a narrow window."""
    page.evaluate(AXE.read_text())
    found = []
    for width, scheme in ((1400, "light"), (1400, "dark"), (400, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found += [f"{width} px, {scheme}: {each}" for each in _faults(page)]
    return found


def _faults(page: Page) -> list[str]:
    found = page.evaluate("axe.run().then(found => found.violations)")
    return [
        f"{each['id']}: {each['help']}: {[node['html'] for node in each['nodes']][:3]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def test_a_narrow_window_shows_one_thing_at_a_time_and_nothing_beyond_its_edge(opened: Opened) -> None:
    page = opened(**PLACES["conversation"])
    page.set_viewport_size({"width": 400, "height": 800})
    expect(page.get_by_label("Message")).to_be_in_viewport()
    expect(page.locator(".event").first).to_be_visible()
    expect(page.get_by_label("Search users and sessions")).to_be_hidden()
    for place in PLACES.values():
        page.goto(page.url.partition("?")[0] + "?" + "&".join(f"{name}={value}" for name, value in place.items()))
        expect(page.get_by_role("navigation")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_role("link", name="raygrove").click()
    expect(page.get_by_label("Search users and sessions")).to_be_visible()
    # What waits is at the end, which stays in view when the details below take their room.
    page.goto(page.url.partition("?")[0] + "?app=desk&user=looks&session=s&tab=state")
    expect(page.get_by_role("button", name="Yes", exact=True)).to_be_in_viewport()


def test_details_are_closed_in_a_narrow_window_until_something_is_chosen_and_by_their_tab(opened: Opened) -> None:
    page = opened(app="desk", user="looks", session="s")
    expect(page.get_by_role("tabpanel")).to_contain_text("a refund")
    page.set_viewport_size({"width": 400, "height": 800})
    page.reload()
    expect(page.get_by_role("tab", name="Turn")).to_be_visible()
    expect(page.get_by_role("tabpanel")).to_have_count(0)
    page.locator(".event").first.click()
    expect(page.get_by_role("tabpanel")).to_be_visible()
    page.get_by_role("tab", name="Event").click()
    expect(page.get_by_role("tabpanel")).to_have_count(0)


def test_a_screen_reader_says_that_an_answer_is_whole_and_the_list_can_be_skipped(
    opened: Opened, runtimes: dict[str, Runtime], user: str
) -> None:
    run_turn(runtimes["desk"], "hi", "s", user)
    page = opened(app="desk", user=user, session="s")
    read_out = page.locator("[aria-live=polite]")
    expect(read_out).to_have_text("concierge has answered, #2")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the conversation")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("main").get_by_role("button", name="Chat")).to_be_focused()
    say(page, "letter")
    expect(read_out).to_have_text("concierge has answered, #6")


def test_keys_lead_everywhere(opened: Opened) -> None:
    page = opened(**PLACES["conversation"])
    expect(page.locator(".event").first).to_be_visible()
    page.keyboard.press("3")
    expect(page.get_by_role("tree")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("bill")
    expect(page.get_by_role("list", name="Agents that fit")).to_contain_text("billing")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.get_by_role("heading", name="Waiting for a person")).to_be_visible()
    page.keyboard.press("1")
    page.keyboard.press("t")
    expect(page.locator(".run").first).to_be_visible()
    page.keyboard.press("t")
    page.locator(".event").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("pre.json")).to_contain_text('"seq": 1')
    page.go_back()
    expect(page).not_to_have_url("seq=1")


def test_a_server_with_tokens_is_asked_with_one_and_a_user_sees_own_sessions_only(
    opening: Callable[..., Page], guarded: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["desk"], "hi", "hers", "ada")
    page = opening(guarded)
    page.goto(f"{guarded}/ui/")
    page.get_by_label("Token of this server").fill("another-token-0123456789")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_contain_text("does not know the token")
    page.get_by_label("Token of this server").fill("a-token-of-ada-0123456789")
    page.get_by_role("button", name="Open").click()
    expect(page.locator(".conversation")).to_have_count(1)
    page.locator(".conversation").click()
    expect(page.get_by_role("status")).to_have_text("live")
    say(page, "draw")
    expect(page.get_by_text("Here it is.")).to_be_visible()
    expect(page.get_by_role("img", name="dot.png")).to_be_visible()
    # A reload keeps the token, and the address of someone else's session shows nothing of it.
    page.reload()
    expect(page.get_by_text("Here it is.")).to_be_visible()
    page.goto(f"{guarded}/ui/?app=desk&view=inbox")
    expect(page.get_by_text("Nothing waits.")).to_be_visible()
    page.goto(f"{guarded}/ui/?app=desk&view=tree&agent=concierge")
    expect(page.get_by_role("treeitem")).to_have_count(2)
    expect(page.get_by_label("only live")).to_have_count(0)
    expect(page.get_by_role("link", name="Figures")).to_have_count(0)
    page.get_by_role("button", name="leave").click()
    expect(page.get_by_label("Token of this server")).to_be_visible()
    # An address may bring a token, which does not stay in it.
    page.goto("about:blank")
    page.goto(f"{guarded}/ui/#token=a-token-of-ada-0123456789")
    expect(page.locator(".me")).to_contain_text("ada")
    assert "token" not in page.url
    page.get_by_role("button", name="leave").click()
    page.get_by_label("Token of this server").fill("an-operators-token-0123456789")
    page.get_by_role("button", name="Open").click()
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_label("only live")).to_be_visible()


def test_a_user_who_opens_the_address_of_anothers_session_sees_nothing_of_it(opening: Callable[..., Page], guarded: str) -> None:
    page = opening(guarded, "app=desk&user=looks&session=s#token=a-token-of-ada-0123456789", expects_refusals=True)
    # Requests name no user: the token does, and Ada has no such session.
    expect(page.get_by_role("status")).to_contain_text("new")
    expect(page.locator(".event")).to_have_count(0)
    for view in ("figures", "batches"):
        page.goto(f"{guarded}/ui/?app=desk&view={view}")
        expect(page.get_by_text("for administrators")).to_be_visible()
        expect(page.get_by_role("navigation")).not_to_contain_text("Figures")
