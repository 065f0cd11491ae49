"""Size limits: larger input is refused with the name of the limit and what to do, and nothing of it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import Blob, Content, Event, EventActions, Flow, LlmAgent, Part, RunConfig, Task, ToolContext, tool
from actors.errors import InvalidIdError, NotEncodableError, RaygroveError, TooLargeError
from tests.support.agents import hostile_code as hostile
from tests.support.agents.hostile_code import (
    NARROW,
    ToolCallingModel,
    YieldingModel,
    answer,
    check_session_works,
    log,
    nested,
    plain_agent,
    returns,
    with_tools,
)
from tests.support.models.digging_model import DiggingModel
from tests.support.runtimes import Deploy, run_turn, saved_blob, stored_state


def test_a_message_that_is_too_large_is_refused_and_nothing_of_it_is_kept(local: Deploy) -> None:
    with local(plain_agent(), settings=NARROW) as rt:
        for message, words in [
            ("x" * 300_000, r"the message has 300\d\d\d bytes, and RAYGROVE_MAX_MESSAGE_BYTES allows 200000: .*rt\.artifacts"),
            ("x" * 150_000, r"RAYGROVE_MAX_EVENT_BYTES allows 100000: .*save_input_blobs_as_artifacts"),
            (Content(parts=[hostile.image(150_000)]), "RAYGROVE_MAX_EVENT_BYTES"),
        ]:
            with pytest.raises(TooLargeError, match=words):
                run_turn(rt, message, "new")
            assert rt.sessions.get("ada", "new") is None
        run_turn(rt, "hi")
        with pytest.raises(TooLargeError):
            run_turn(rt, "x" * 150_000)
        assert len(log(rt)) == 2
        check_session_works(rt)


def test_large_data_of_a_message_goes_to_artifacts_where_that_is_wanted(local: Deploy, tmp_path: Path) -> None:
    config = RunConfig(save_input_blobs_as_artifacts=True)
    with local(plain_agent(), settings=NARROW) as rt:
        run_turn(rt, Content(parts=[Part(text="see"), hostile.image(150_000)]), run_config=config, invocation_id="e-1")
        assert saved_blob(rt, "artifact_e-1_1") == Blob(data=b"\x89" * 150_000, mime_type="image/png")
        before = len(list((tmp_path / "artifacts").rglob("0")))
        long_text = Content(parts=[Part(text="x" * 110_000), hostile.image(9)])
        unfit: list[dict[str, Any]] = [{"message": long_text}, {"state_delta": {"": 1}}]
        for options in unfit:
            asked: dict[str, Any] = {"message": Content(parts=[hostile.image(9)]), "run_config": config, **options}
            with pytest.raises((TooLargeError, InvalidIdError)):
                run_turn(rt, **asked)
        assert len(list((tmp_path / "artifacts").rglob("0"))) == before


STATES: list[tuple[dict[Any, Any], type[RaygroveError], str]] = [
    ({"big": "x" * 80_000}, TooLargeError, "the session state has .*RAYGROVE_MAX_STATE_BYTES allows 70000"),
    ({"user:big": "x" * 80_000}, TooLargeError, "the user state"),
    ({"app:big": "x" * 80_000}, TooLargeError, "the app state"),
    ({"temp:big": "x" * 80_000}, TooLargeError, "the temp state"),
    ({"k": nested(150)}, NotEncodableError, "nested deeper than 100 levels"),
    ({"k": nested(20_000)}, NotEncodableError, "cannot be sent or stored"),
    ({"k": hostile.self_containing_list()}, NotEncodableError, "cannot be sent or stored"),
    ({"k": object()}, NotEncodableError, "object"),
    ({"k": "\ud800"}, NotEncodableError, "surrogates"),
    ({"k": 2**70}, NotEncodableError, "ints"),
    ({7: 1}, NotEncodableError, "`str`"),
    ({"": 1}, InvalidIdError, "state key ''"),
    ({"temp:": 1}, InvalidIdError, "state key"),
    ({"a\x00": 1}, InvalidIdError, "state key"),
    ({"k" * 300: 1}, InvalidIdError, "state key .* 256"),
]


def test_state_that_cannot_be_kept_is_refused_and_nothing_of_it_is(local: Deploy) -> None:
    with local(plain_agent(), settings=NARROW) as rt:
        run_turn(rt, "hi")
        before = rt.sessions.get("ada", "s1")
        for delta, error, words in STATES:
            is_temp = any(str(key).startswith("temp:b") for key in delta)
            with pytest.raises(error, match=words):
                run_turn(rt, "hi", state_delta=delta)
            with pytest.raises(error, match=words):
                run_turn(rt, "hi", "new", state_delta=delta)
            if not is_temp:
                with pytest.raises(error, match=words):
                    rt.sessions.create("ada", "new", delta)
            if not is_temp and delta != {"temp:": 1}:
                with pytest.raises(error, match=words):
                    rt.sessions.append_event("ada", "s1", Event(author="root", actions=EventActions(state_delta=delta)))
            assert rt.sessions.get("ada", "new") is None
            assert rt.sessions.get("ada", "s1") == before
        check_session_works(rt)


def test_a_state_that_grows_key_by_key_stops_at_the_limit_and_can_be_made_smaller(local: Deploy) -> None:
    with local(plain_agent(), settings=NARROW) as rt:
        for number in range(6):
            run_turn(rt, "hi", state_delta={f"k{number}": "x" * 10_000, "again": "y" * 2_000})
        with pytest.raises(TooLargeError, match="session state"):
            run_turn(rt, "hi", state_delta={"k6": "x" * 10_000})
        run_turn(rt, "hi", state_delta={"k0": None})
        run_turn(rt, "hi", state_delta={"k6": "x" * 10_000})
        with pytest.raises(TooLargeError):
            run_turn(rt, "hi", state_delta={"k7": "x" * 10_000})
        run_turn(rt, "hi", "another", state_delta={"k7": "x" * 10_000, "user:a": "x" * 50_000})
        with pytest.raises(TooLargeError, match="user state"):
            run_turn(rt, "hi", "third", state_delta={"user:b": "x" * 50_000})
        assert rt.sessions.get("ada", "third") is None
        check_session_works(rt)


def test_what_is_of_one_turn_only_is_not_in_an_event_that_is_added(local: Deploy) -> None:
    with local(plain_agent()) as rt:
        rt.sessions.create("ada", "s1")
        actions = EventActions(state_delta={"temp:t": 1, "k": 2})
        added = rt.sessions.append_event("ada", "s1", Event(author="root", actions=actions))
        assert added.actions.state_delta == log(rt)[0].actions.state_delta == {"k": 2}


def test_results_that_are_too_large_together_are_kept_as_artifacts(local: Deploy) -> None:
    with local(with_tools(returns("x" * 60_000)), settings=NARROW) as rt:
        # Each would fit, both together do not: one gives way.
        responses = [each.response for event in run_turn(rt, "go") for each in event.function_responses()]
        assert sorted(map(list, responses), key=len) == [["result"], ["artifact", "shortened", "result"]]
        check_session_works(rt)
    with local(with_tools(returns("x" * 120_000)), settings=NARROW) as rt:
        events = run_turn(rt, "go", "s2")
        responses = [each.response for event in events for each in event.function_responses()]
        names = [each["artifact"] for each in responses]
        assert rt.artifacts.list_keys("ada", "s2") == sorted(names)
        assert (len(responses), events[-1].text) == (2, "done")
        check_session_works(rt, "s2")


@pytest.mark.parametrize("scope", ["", "user:", "app:", "temp:"])
def test_a_tool_that_makes_the_state_too_large_is_told_so_and_changes_nothing(local: Deploy, scope: str) -> None:
    @tool
    def hoard(tool_context: Any) -> str:
        """Keep too much."""
        tool_context.state[f"{scope}hoard"] = "x" * 80_000
        return "kept"

    @tool
    def look() -> str:
        """Keep nothing."""
        return "seen"

    with local(LlmAgent(name="root", model=ToolCallingModel("hoard", "look"), tools=[hoard, look]), settings=NARROW) as rt:
        events = run_turn(rt, "go")
        hoarded, seen = (each.response for event in events for each in event.function_responses())
        assert "what hoard has set cannot be stored" in hoarded["error"]
        assert f"the {scope[:-1] or 'session'} state has 80" in hoarded["error"]
        assert "RAYGROVE_MAX_STATE_BYTES" in hoarded["error"]
        assert (seen, events[-1].text) == ({"result": "seen"}, "done")
        assert stored_state(rt) == {}
        check_session_works(rt)


def test_a_tool_of_a_flow_that_makes_the_state_too_large_is_told_so(local: Deploy) -> None:
    def dig(tool_context: ToolContext) -> str:
        """Keep too much."""
        tool_context.state["hoard"] = "x" * 80_000
        return "gold"

    agent = LlmAgent(name="digger", model=DiggingModel(), tools=[dig])
    with local(Flow([Task("do", name="do")], agents=[agent], name="works"), settings=NARROW) as rt:
        events = run_turn(rt, "go")
        errors = [str(each.response) for event in events for each in event.function_responses() if "error" in each.response]
        assert len(errors) == 1
        assert "what dig has set cannot be stored" in errors[0]
        assert events[-1].text == "succeed_do by digger"


def test_an_answer_that_is_too_large_fails_its_turn_with_one_event(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=YieldingModel(answer("x" * 150_000))), settings=NARROW) as rt:
        with pytest.raises(TooLargeError, match=r"an event of agent 'root' has 15\d\d\d\d bytes.*artifact"):
            run_turn(rt, "hi")
        assert [(event.author, event.error_code) for event in log(rt)] == [("user", None), ("root", "TooLargeError")]
        check_session_works(rt)


def test_large_data_of_an_answer_is_saved_as_an_artifact_and_on_record(local: Deploy) -> None:
    parts = ["a picture", hostile.image(1_500_000), "a dot", hostile.image(10)]
    model = YieldingModel(answer(*parts, partial=True), answer(*parts))
    with local(LlmAgent(name="root", model=model, output_key="said"), settings=NARROW) as rt:
        piece, event = run_turn(rt, "draw", run_config=RunConfig(streaming="sse"))
        assert piece.partial
        assert piece.content is not None
        assert [bool(part.inline_data) for part in piece.content.parts] == [False, False, True]
        assert event.content is not None
        name = f"artifact_{event.id}_1"
        assert [part.text for part in event.content.parts] == [
            "a picture",
            f"Generated file: {name}. It is saved into artifacts",
            "a dot",
            None,
        ]
        assert event.content.parts[3].inline_data == Blob(data=b"\x89" * 10, mime_type="image/png")
        assert event.actions.artifact_delta == log(rt)[-1].actions.artifact_delta == {name: 0}
        assert rt.artifacts.load("ada", "s1", name) == hostile.image(1_500_000)
        assert event.actions.state_delta == {"said": "a picturea dot"}
        check_session_works(rt)
