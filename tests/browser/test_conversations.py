"""Conversations in the inspector: written, streamed, stopped, left and come back to, searched."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from actors import AgentTool, Content, Event, LlmAgent, ToolContext, tool
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.web import app_for
from tests.browser.apps import concierge
from tests.browser.conftest import Opened, say
from tests.support.agents.web_agents import Gate
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.servers.web_server import serving

pytestmark = pytest.mark.browser


def test_a_conversation_is_begun_and_shown_with_calls_state_and_artifacts(opened: Opened, user: str) -> None:
    page = opened()
    page.get_by_role("button", name="+ New").click()
    page.get_by_label("User of the new conversation").fill(user)
    page.get_by_role("button", name="Begin").click()
    say(page, "draw something")
    expect(page.get_by_text("Here it is.")).to_be_visible()
    expect(page.locator(".call")).to_contain_text("draw")
    expect(page.locator(".delta")).to_have_text("drawn = 1")
    picture = page.get_by_role("img", name="dot.png")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 1
    expect(page.get_by_role("cell", name="pears, ripe")).to_be_visible()
    expect(page.locator("figure pre")).to_have_text("Signed: <b>the concierge</b>")
    # It is in the list, and the address leads back to it.
    expect(page.locator(".conversation.here")).to_contain_text(user)
    say(page, "draw again")
    expect(page.locator(".delta")).to_have_text(["drawn = 1", "drawn = 2"])
    page.get_by_role("tab", name="State").click()
    expect(page.locator(".change").first.locator("del")).to_have_text("1")
    expect(page.locator(".change").first.locator("ins")).to_have_text("2")
    page.reload()
    expect(page.locator(".delta")).to_have_text(["drawn = 1", "drawn = 2"])
    expect(page.get_by_role("tab", name="State")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_role("tabpanel").get_by_role("button", name="note.txt").click()
    page.reload()
    expect(page.get_by_role("tabpanel").locator("pre")).to_have_text("Signed: <b>the concierge</b>")


def test_an_answer_is_shown_as_it_comes_and_a_reload_in_its_middle_loses_nothing(
    opened: Opened, gates: Path, user: str, runtimes: dict[str, Runtime]
) -> None:
    runtimes["slow"].sessions.create(user, "s")
    page, gate = opened(app="slow", user=user, session="s"), Gate(gates, user)
    say(page, gate.name)
    answer = page.locator(".event:not(.user) .text")
    gate.let(1)
    expect(answer).to_have_text("one ")
    gate.let(1)
    expect(answer).to_have_text("one two ")
    # Two browsers see one conversation.
    other = opened(app="slow", user=user, session="s")
    expect(other.locator(".event:not(.user) .text")).to_have_text("one two ")
    page.reload()
    expect(answer).to_have_text("one two ")
    gate.let(1)
    expect(answer).to_have_text("one two three ")
    expect(other.locator(".event:not(.user) .text")).to_have_text("one two three ")
    gate.close()
    for each in (page, other):
        expect(each.locator(".event:not(.user) .text")).to_have_text(["one two three four"])
        expect(each.locator(".partial")).to_have_count(0)
        expect(each.get_by_role("button", name="Send")).to_be_visible()
    assert [turn.state for turn in runtimes["slow"].turns.list(user, "s")] == ["finished"]


def test_a_turn_is_stopped(opened: Opened, gates: Path, user: str, runtimes: dict[str, Runtime]) -> None:
    runtimes["slow"].sessions.create(user, "s")
    page, gate = opened(app="slow", user=user, session="s"), Gate(gates, user)
    say(page, gate.name)
    gate.let(1)
    expect(page.locator(".event:not(.user) .text")).to_have_text("one ")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.locator(".turn")).to_contain_text("cancelled")
    expect(page.locator(".partial")).to_have_count(0)
    assert [turn.state for turn in runtimes["slow"].turns.list(user, "s")] == ["cancelled"]
    gate.close()


@tool
async def listen(tool_context: ToolContext) -> str:
    """Wait for a message."""
    return (await tool_context.next_message()).text


def test_a_turn_that_runs_reads_what_is_typed(opening: Callable[..., Page], user: str, tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([{"call": "listen"}, "so be it"]), tools=[listen])
    with Deploy("local", tmp_path)(root, app_name="listening") as rt, serving(app_for(rt)) as url:
        rt.sessions.create(user, "s")
        page = opening(url, f"app=listening&user={user}&session=s")
        say(page, "begin")
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        page.get_by_label("Message").fill("without museums")
        page.get_by_role("button", name="Steer").click()
        expect(page.get_by_text("so be it")).to_be_visible()
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        expect(page.locator(".turn")).to_have_count(1)
        assert [event.text for event in stored(rt, "s", user) if event.text] == ["begin", "without museums", "so be it"]


def test_a_background_run_is_shown_with_a_way_to_its_session_and_back(
    opening: Callable[..., Page], user: str, tmp_path: Path
) -> None:
    helper = LlmAgent(name="helper", description="helps", model=ScriptedModel(["it is 42"]))
    model = ScriptedModel([{"call": "helper", "args": {"request": "what is it?"}}, "helper looks it up", "it was 42"])
    root = LlmAgent(name="root", model=model, tools=[AgentTool(helper, background=True)])
    with Deploy("local", tmp_path)(root, app_name="runs") as rt, serving(app_for(rt)) as url:
        rt.sessions.create(user, "s")
        page = opening(url, f"app=runs&user={user}&session=s")
        say(page, "begin")
        runs = page.get_by_role("navigation", name="Background runs")
        runs.get_by_role("link", name="helper done").click()
        expect(page.get_by_text("it is 42")).to_be_visible()
        runs.get_by_role("link", name="started in s").click()
        expect(page.get_by_text("it was 42")).to_be_visible()


def test_what_models_say_is_never_taken_for_html(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    runtimes["desk"].sessions.create(user, "<b>s")
    page = opened(app="desk", user=user, session="<b>s")
    say(page, "markup")
    expect(page.get_by_text("<img src=x onerror=alert(1)> <b>not bold</b>")).to_be_visible()
    assert page.locator(".text b, .text img, h1 b").count() == 0


def test_sessions_are_searched_and_turns_filtered_by_their_state(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    for session in ("pears", "plums"):
        run_turn(runtimes["desk"], "hi", session, user)
    with pytest.raises(Exception, match="customer"):
        run_turn(runtimes["slow"], "fail", "broken", user)
    page = opened(app="desk")
    page.get_by_label("Search users and sessions").fill("PEAR")
    expect(page.locator(".conversation")).to_have_count(1)
    page.locator(".conversation").click()
    expect(page.get_by_text("Order 42 is on its way.")).to_be_visible()
    page.get_by_label("App").select_option("slow")
    page.get_by_label("Search users and sessions").fill(user)
    page.get_by_label("State of turns").select_option("failed")
    expect(page.locator(".conversation")).to_have_count(1)
    page.locator(".conversation").click()
    expect(page.locator(".turn")).to_contain_text("failed")
    expect(page.locator(".event .error")).to_contain_text("KeyError")
    page.get_by_text("traceback", exact=True).click()
    expect(page.locator(".event pre")).to_contain_text("web_agents.py")
    page.get_by_label("State of turns").select_option("paused")
    expect(page.get_by_text("Nothing fits.")).to_be_visible()
    page.get_by_label("State of turns").select_option("failed")
    # The address has both, also for who gets it from someone.
    other = opened(app="slow")
    other.goto(page.url)
    expect(other.get_by_label("State of turns")).to_have_value("failed")
    expect(other.get_by_label("Search users and sessions")).to_have_value(user)
    expect(other.locator(".conversation")).to_have_count(1)


def test_a_failed_turn_is_run_on(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    with pytest.raises(Exception, match="customer"):
        run_turn(runtimes["slow"], "fail", "s", user)
    page = opened(app="slow", user=user, session="s")
    expect(page.locator(".event .error")).to_have_count(1)
    page.get_by_role("button", name="retry").click()
    # It fails again: the model always does.
    expect(page.locator(".event .error")).to_have_count(2)
    expect(page.locator(".turn")).to_contain_text("failed")
    until(lambda: [turn.state for turn in runtimes["slow"].turns.list(user, "s")] == ["failed"])


def test_a_timeline_has_a_row_for_each_run_and_its_ticks_lead_to_events(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["desk"], "a refund", "s", user)
    page = opened(app="desk", user=user, session="s", pane="timeline")
    expect(page.locator(".run .agent")).to_have_text(["concierge", "billing"])
    expect(page.locator(".arrow")).to_have_text("→ billing")
    # An arrow leads from the one run down to the other. What is above them is whole by then.
    expect(page.locator(".summary")).to_contain_text("paused")
    arrow, target = (
        page.locator(".handover").bounding_box(),
        page.get_by_role("button", name=re.compile("^billing,")).bounding_box(),
    )
    assert arrow is not None
    assert target is not None
    assert abs(arrow["y"] + arrow["height"] - target["y"]) <= 2
    assert abs(arrow["x"] - target["x"]) <= 4
    # A tick has how long it took, and tokens.
    tick = page.get_by_role("button", name=re.compile(r"model: calls refund, [\d.]+ m?s, [\d,]+ → \d+ tokens"))
    expect(tick).to_have_attribute("title", re.compile("tokens"))
    tick.click()
    expect(page.locator("pre.json")).to_contain_text('"name": "refund"')
    seq = page.evaluate("new URL(location).searchParams.get('seq')")
    page.reload()
    expect(page.locator("pre.json")).to_contain_text(f'"seq": {seq}')
    page.get_by_role("button", name="Event before").click()
    expect(page.locator("pre.json")).to_contain_text("transferToAgent")


def test_a_turn_says_why_it_went_where_it_did(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["desk"], "hi", "s", user)
    run_turn(runtimes["desk"], "hi again", "s", user)
    page = opened(app="desk", user=user, session="s", tab="turn")
    expect(page.locator(".why")).to_have_text("#3 went to concierge: it spoke last of those that may keep the conversation.")
    page.locator(".turn button").first.click()
    expect(page.locator(".why")).to_contain_text("#1 went to concierge: no agent that may keep the conversation has spoken")


def test_a_turn_says_whose_call_was_answered_and_who_was_passed_over(
    opened: Opened, user: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["desk"], "a refund", "s", user)
    [call] = runtimes["desk"].turns.pending(user)
    run_turn_of_answer(runtimes["desk"], call.call_id, user)
    page = opened(app="desk", user=user, session="s", tab="turn")
    expect(page.locator(".why").last).to_contain_text(f"went to billing: the message answers its call {call.call_id}.")
    # An agent of a workflow keeps no conversation: the page has the reason of the rules.
    for _ in range(2):
        run_turn(runtimes["line"], "hi", "s", user)
    page = opened(app="line", user=user, session="s", tab="turn")
    expect(page.locator(".why")).to_contain_text("went to line: no agent that may keep the conversation has spoken")
    expect(page.locator(".why")).to_contain_text("third was passed over: line is no LLM agent.")
    page.locator(".why").get_by_role("button", name="line").click()
    expect(page.get_by_role("heading", name="line")).to_be_visible()


def run_turn_of_answer(rt: Runtime, call_id: str, user: str) -> None:
    list(rt.answer({call_id: True}, user_id=user, session_id="s"))


def test_a_session_is_rewound_after_a_question(opened: Opened, user: str, runtimes: dict[str, Runtime]) -> None:
    run_turn(runtimes["desk"], "draw", "s", user)
    run_turn(runtimes["desk"], "draw", "s", user)
    page = opened(app="desk", user=user, session="s", tab="state")
    expect(page.locator(".panel > pre")).to_contain_text('"drawn": 2')
    page.get_by_role("button", name="rewind").nth(1).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="rewind").nth(1).click()
    page.get_by_role("dialog").get_by_role("button", name="Rewind").click()
    expect(page.locator(".panel > pre")).to_contain_text('"drawn": 1')
    # What was taken back is no longer shown.
    expect(page.locator(".delta")).to_have_text(["drawn = 1", "drawn = 1"])
    expect(page.locator(".transfer")).to_contain_text("rewound to before turn")
    expect(page.get_by_text("Here it is.")).to_have_count(1)
    session = runtimes["desk"].sessions.get(user, "s")
    assert session is not None
    assert session.state["drawn"] == 1


def test_a_session_of_ten_thousand_events_scrolls(opening: Callable[..., Page], user: str, engine: str, tmp_path: Path) -> None:
    # Written on the engine that is quicker at it; the store is the same.
    with Deploy("local", tmp_path)(concierge(), app_name="long") as rt:
        many(rt, user)
    with Deploy(engine, tmp_path)(concierge(), app_name="long") as rt, serving(app_for(rt)) as url:
        page = opening(url, f"app=long&user={user}&session=s")
        expect(page.get_by_text("event 10000", exact=True)).to_be_visible()
        assert page.locator("*").count() < 2_000
        page.goto(page.url + "&seq=17")
        expect(page.get_by_text("event 17", exact=True)).to_be_in_viewport()
        assert page.locator(".row").count() < 500
        events = page.get_by_role("list", name="Events")
        events.evaluate("list => list.scrollTop = list.scrollHeight")
        expect(page.get_by_text("event 10000", exact=True)).to_be_in_viewport()
        # A click on what is seen does not move it.
        before = page.get_by_text("event 9998", exact=True).bounding_box()
        page.get_by_text("event 9998", exact=True).click()
        expect(page.locator("pre.json")).to_contain_text("event 9998")
        assert page.get_by_text("event 9998", exact=True).bounding_box() == before


def many(rt: Runtime, user: str) -> None:
    """Write 10,000 events into a session."""
    rt.sessions.create(user, "s")
    for number in range(1, 10_001):
        text = Content.of_text(f"event {number}", role="model")
        rt.sessions.append_event(user, "s", Event(author="concierge", invocation_id=f"turn-{number // 100}", content=text))


def test_a_page_goes_on_when_the_connection_was_lost(
    opening: Callable[..., Page], url: str, user: str, runtimes: dict[str, Runtime]
) -> None:
    run_turn(runtimes["desk"], "hi", "s", user)
    # What the page asks while it is offline the browser reports by itself.
    page = opening(url, f"app=desk&user={user}&session=s", expects_refusals=True)
    expect(page.get_by_role("status")).to_have_text("live")
    page.context.set_offline(True)
    run_turn(runtimes["desk"], "letter", "s", user)
    page.context.set_offline(False)
    expect(page.get_by_text("The letter is written.")).to_be_visible()


def test_a_timeline_marks_what_was_tried_again(opened: Opened, user: str, runtimes: dict[str, Runtime], engine: str) -> None:
    run_turn(runtimes["line"], f"shaky {engine}", "s", user)
    page = opened(app="line", user=user, session="s", pane="timeline")
    expect(page.locator(".run .agent")).to_have_text(["first", "second", "third"])
    expect(page.get_by_role("button", name="error: LookupError")).to_be_visible()
    again = page.get_by_role("button", name="retry: second failed with LookupError: restart 1 of 3")
    again.click()
    expect(page.locator("pre.json")).to_contain_text('"decision": "restart"')
    expect(page.get_by_role("heading", name="Traceback")).to_be_visible()


def test_a_timeline_marks_a_process_that_was_lost(
    opened: Opened, gates: Path, user: str, runtimes: dict[str, Runtime], engine: str
) -> None:
    if engine == "local":
        pytest.skip("all agents are in this process")
    rt, gate = runtimes["slow"], Gate(gates, user)
    rt.sessions.create(user, "s")
    page = opened(app="slow", user=user, session="s")
    say(page, gate.name)
    gate.let(1)
    expect(page.get_by_text("one")).to_be_visible()
    os.kill(rt.statistics().agents["stepped"].pid, signal.SIGKILL)
    gate.close()
    expect(page.get_by_text("one two three four")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.get_by_role("button", name="Timeline", exact=True).click()
    expect(page.get_by_role("button", name="lost: its process was lost")).to_be_visible()
    expect(page.locator(".summary")).to_contain_text("1 lost")


def test_a_timeline_says_with_which_epoch_a_turn_went_on(
    opened: Opened, gates: Path, user: str, runtimes: dict[str, Runtime], engine: str
) -> None:
    rt = runtimes["slow"]
    run_turn(rt, "pay", "s", user)
    page = opened(app="slow", user=user, session="s")
    page.get_by_role("button", name="Yes", exact=True).click()
    expect(page.locator(".turn .epoch")).to_have_text("epoch 2")
    page.get_by_role("button", name="Timeline", exact=True).click()
    expect(page.get_by_role("button", name=re.compile("waited for a person: .*, then epoch 2"))).to_be_visible()
    if engine == "local":
        return
    # On Ray a Runner may be lost: its turn goes on with another one.
    gate = Gate(gates, user)
    page = opened(app="slow", user=user, session="s")
    say(page, gate.name)
    gate.let(1)
    expect(page.locator(".partial .text")).to_have_text("one ")
    lost = rt.statistics().runner.pid
    os.kill(lost, signal.SIGKILL)
    until(lambda: rt.statistics().runner.pid != lost)
    gate.close()
    expect(page.get_by_text("one two three four")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(page.locator(".turn").last.locator(".epoch")).to_have_text("epoch 2")
    page.get_by_role("button", name="Timeline", exact=True).click()
    expect(page.get_by_role("button", name=re.compile("the Runner was lost, then epoch 2"))).to_be_visible()
