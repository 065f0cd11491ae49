"""Programs of google-adk, unmodified, on both engines. One deployment has them all: the root runs the one that is named."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from typing import Any, cast

import pytest

from actors import Content, Event, FunctionResponse, Part, RunConfig, Session
from runtime.driver.runtime import Runtime
from tests.adk import programs
from tests.adk.notes import log
from tests.support.runtimes import Deploy


@pytest.fixture(scope="module", params=["local", "ray"])
def rt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("adk")
    with pytest.MonkeyPatch.context() as patch:
        log().unlink(missing_ok=True)
        patch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
        if request.param == "ray":
            request.getfixturevalue("local_ray")
        runtime = Runtime(
            programs.root_agent,
            app_name="samples",
            engine=request.param,
            session_store=f"sqlite:///{folder}/sessions.db",
            artifact_store=f"file://{folder}/artifacts",
        )
        with runtime:
            yield runtime


class Turn:
    """A turn of a session of its own, and what came of it."""

    def __init__(self, rt: Runtime, message: Any, session: str = "", **options: Any) -> None:
        self.session = session or uuid.uuid4().hex
        self.events: list[Event] = list(rt.run(user_id=self.session, session_id=self.session, message=message, **options))
        self.stored = cast(Session, rt.sessions.get(user_id=self.session, session_id=self.session))
        self.state = self.stored.state

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [
            (event.author, event.text) for event in self.events if event.text and not event.partial and event.author != "user"
        ]

    @property
    def last(self) -> str:
        return self.texts[-1][1]

    def call_id(self) -> str:
        return next(call.id for event in self.events for call in event.function_calls()) or ""


def answer(name: str, call_id: str, response: dict[str, Any]) -> Content:
    return Content(role="user", parts=[Part(function_response=FunctionResponse(id=call_id, name=name, response=response))])


def test_a_function_is_called_and_arguments_that_the_model_made_up_are_dropped(rt: Runtime) -> None:
    assert Turn(rt, "weather: Rome?").last == "{'status': 'success', 'report': 'Rome: 20 C'}"


def test_a_tool_writes_state_and_artifacts_by_its_context(rt: Runtime) -> None:
    turn = Turn(rt, "keeper: milk")
    assert turn.last == "{'result': 'keeper kept milk in note.txt'}"
    assert (turn.state["kept"], turn.state["user:kept"]) == ("milk", "milk")
    deltas = [event.actions.artifact_delta for event in turn.events]
    assert {"note.txt": 0} in deltas
    assert "as provided" in Turn(rt, "provided: hi", turn.session).last
    assert "Serve milk" in Turn(rt, "provided: hi", turn.session).last


def test_a_base_tool_runs_and_changes_requests(rt: Runtime) -> None:
    assert Turn(rt, "doubler: 21").last == "{'result': 42}"
    assert "You can double." in Turn(rt, "doubler_says: hi").last


def test_a_long_running_tool_pauses_the_turn_and_is_answered_in_a_later_one(rt: Runtime) -> None:
    turn = Turn(rt, "expenses: 500")
    assert turn.texts == []
    later = Turn(rt, answer("ask_boss", turn.call_id(), {"status": "approved"}), turn.session)
    assert later.last == "{'status': 'approved'}"


def test_a_tool_that_requires_confirmation_waits_for_it(rt: Runtime) -> None:
    turn = Turn(rt, "careful: all")
    assert turn.texts == []
    assert Turn(rt, answer("delete_all", turn.call_id(), {"confirmed": True}), turn.session).last == "{'result': 'deleted'}"


def test_a_function_says_which_calls_need_confirmation(rt: Runtime) -> None:
    turn = Turn(rt, "payer: pay")
    assert [response.response for event in turn.events for response in event.function_responses()] == [{"result": "paid 50"}]
    call_id = [call.id for event in turn.events for call in event.function_calls()][-1] or ""
    assert Turn(rt, answer("pay", call_id, {"confirmed": True}), turn.session).last == "{'result': 'paid 500'}"
    assert Turn(rt, "payer: pay", state_delta={"strict": False}).last == "{'result': 'paid 500'}"
    assert "mandatory input parameters" in Turn(rt, "hasty: pay").last


def test_tools_of_the_service_stand_in_the_request(rt: Runtime) -> None:
    assert set(Turn(rt, "searcher: hi").last.split()) >= {"google_search", "get_weather"}
    assert "google_search" not in Turn(rt, "coder: hi").last
    assert "code_execution" in Turn(rt, "coder: hi").last


def test_toolsets_are_asked_in_each_run_and_have_a_say_in_requests(rt: Runtime) -> None:
    assert Turn(rt, "drawer: hi").last == "{'status': 'success', 'report': 'Rome: 20 C'}"
    session = Turn(rt, "drawer_tools: hi", state_delta={"may_double": True})
    assert session.last == "get_weather double"
    assert Turn(rt, "drawer_tools: hi", session.session, state_delta={"may_double": False}).last == "get_weather"
    # A toolset whose server is away costs its tools only, as in ADK.
    assert Turn(rt, "drawer_tools: hi", session.session, state_delta={"broken": True}).texts == []
    assert "There is a drawer." in Turn(rt, "drawer_says: hi").last


def test_toolsets_are_closed_when_their_runtime_ends(local: Deploy) -> None:
    # Not on Ray, where a process may be killed before it has closed anything.
    log(programs.DRAWERS).unlink(missing_ok=True)
    with local(programs.root_agent) as runtime:
        Turn(runtime, "drawer: hi")
        assert not log(programs.DRAWERS).exists()
        Turn(runtime, "drawer_says: hi")
    assert log(programs.DRAWERS).read_text().splitlines() == ["drawer closed"] * 2


def test_a_service_that_is_described_by_openapi_is_called(rt: Runtime) -> None:
    assert "127.0.0.1" in Turn(rt, "pets: hi").last


def test_instructions_are_templates_functions_and_static_texts(rt: Runtime) -> None:
    shown = Turn(rt, "templated: hi", state_delta={"greeting": "ciao"}).last
    assert shown.startswith("Never lie.")
    assert "Say ciao" not in shown
    # As in ADK: what stays the same can be cached, and the rest stands before the newest message.
    assert re.search(
        r"Say ciao to them\..* \| instructed: hi$", Turn(rt, "instructed: hi", state_delta={"greeting": "ciao"}).last, re.DOTALL
    )
    assert "Serve no one as provided." in Turn(rt, "provided: hi").last


def test_planners_work_on_requests_and_responses(rt: Runtime) -> None:
    events = Turn(rt, "planner: hi").events
    parts = [part for event in events if event.author == "planner" for part in event.content.parts]  # type: ignore[union-attr]
    assert [bool(part.thought) for part in parts] == [True, False]
    assert Turn(rt, "thinker: hi").last == "7"
    shouted = Turn(rt, "shouter: hi")
    assert "SHOUT, SHOUTER." in shouted.last
    assert shouted.state["shouted"] is True


def test_the_configuration_reaches_the_model(rt: Runtime) -> None:
    assert Turn(rt, "configured: hi").last == "0.25"


def test_model_callbacks_change_requests_and_responses_in_place(rt: Runtime) -> None:
    assert Turn(rt, "guarded: hi").last == "GUARDED: HI | AND BE BRIEF"
    blocked = Turn(rt, "guarded: BLOCK")
    assert blocked.last == "I cannot."
    assert blocked.state["blocked"] is True


def test_agent_callbacks_write_state_and_add_contents(rt: Runtime) -> None:
    turn = Turn(rt, "signed: hi")
    assert turn.texts == [("signed", "hello"), ("signed", "signed by signed")]
    assert Turn(rt, "signed: hi", turn.session).state["turns"] == 2


def test_tool_callbacks_are_called_by_keyword_and_change_arguments_and_results_in_place(rt: Runtime) -> None:
    turn = Turn(rt, "adapted: hi")
    responses = [response.response for event in turn.events for response in event.function_responses()]
    assert responses[0] == {"status": "success", "report": "Oslo: 20 F", "source": "session: True"}
    assert responses[1]["report"] == "get_weather does not know it"


def test_a_callback_has_an_answer_for_the_error_of_a_model(rt: Runtime) -> None:
    assert Turn(rt, "sorry: hi").last == "sorry: no network"


def test_workflows_hand_state_on(rt: Runtime) -> None:
    turn = Turn(rt, "pipeline: hi")
    assert "Review: a draft" in turn.last
    assert [author for author, _ in turn.texts] == ["writer", "reviewer"]
    fan = Turn(rt, "fan: hi").state
    assert (fan["left"], fan["right"]) == ("L", "R")


def test_loops_end_by_a_tool_by_an_agent_and_by_their_limit(rt: Runtime) -> None:
    assert [author for author, _ in Turn(rt, "refine: hi").texts] == ["improve"]
    assert [author for author, _ in Turn(rt, "again: hi").texts] == ["repeat", "repeat"]
    checked = Turn(rt, "checked: hi")
    assert [author for author, _ in checked.texts] == ["work", "work"]
    assert checked.state["rounds"] == 2


def test_agents_transfer_and_ask_each_other(rt: Runtime) -> None:
    assert Turn(rt, "team: hi").texts == [("specialist", "I know it.")]
    assert Turn(rt, "asker: hi").last == "{'text': '42', 'score': 9}"


def test_a_base_agent_runs_its_children_in_their_actors_and_their_events_are_stored_once(rt: Runtime) -> None:
    turn = Turn(rt, "story: hi")
    said = ("story", "['negative'] negative True")
    assert turn.texts == [("toner", "negative"), said, ("rewriter", "a better one")]
    assert turn.state["mid"] == "negative"
    assert [event.author for event in turn.stored.events if event.text and event.author != "user"] == [
        "toner",
        "story",
        "rewriter",
    ]
    assert {"router", "story", "toner", "rewriter"} <= set(rt.statistics().agents)


def test_what_code_writes_past_any_event_is_stored(rt: Runtime) -> None:
    turn = Turn(rt, "direct: hi")
    assert "Be grave." in turn.texts[0][1]
    assert turn.last == "grave grave"
    assert {key: turn.state.get(key) for key in ("tone", "list", "seen")} == {"tone": None, "list": ["a", "b"], "seen": "grave"}


def test_responses_are_streamed(rt: Runtime) -> None:
    turn = Turn(rt, "signed: hi", run_config=RunConfig(streaming="sse"))
    assert [event.text for event in turn.events if event.partial] == ["he", "llo"]


def test_a_turn_whose_process_is_killed_in_a_tool_goes_on_where_it_was(
    rt: Runtime,
) -> None:
    turn = Turn(rt, "mortal: hi")
    lines = log().read_text().splitlines()
    killed = rt.statistics().agents["mortal"].pid != os.getpid()
    assert turn.texts == [("mortal", "survived")]
    assert [line for line in lines if line.startswith("model")] == ["model 0", "model 1", "model 2"]
    assert lines.count("first") == 1
    assert lines.count("deadly") == (2 if killed else 1)
