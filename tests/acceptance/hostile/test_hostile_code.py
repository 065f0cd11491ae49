"""Tools, callbacks, plugins, agents and models that return or raise what they should not: actors outlive them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import Content, Event, EventActions, LlmAgent, Part, tool
from actors.errors import (
    AgentFailedError,
    ModelResponseError,
    NotEncodableError,
    PluginFailedError,
    RaygroveError,
    TooLargeError,
    TurnCancelledError,
)
from runtime import Settings
from tests.support.agents import hostile_code as hostile
from tests.support.agents.hostile_code import (
    ActingAgent,
    ToolCallingModel,
    YieldingModel,
    call,
    check_session_works,
    log,
    nested,
    raises,
    returns,
    with_tools,
)
from tests.support.runtimes import Deploy, run_turn

EXITS: list[Any] = [
    SystemExit(1),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    StopIteration(),
    hostile.UnprintableError(),
]

RESULTS: list[Any] = [
    object(),
    math.nan,
    {"a": [math.inf]},
    hostile.self_containing_list(),
    nested(150),
    nested(20_000),
    "\ud800",
    2**80,
    {(1, 2): 3},
    hostile.ExitingModelDump(),
    open,
    iter(()),
]


def test_whatever_a_tool_returns_or_raises_the_model_is_told_and_goes_on(local: Deploy) -> None:
    acts = [(raises(each), True) for each in EXITS] + [(returns(each), False) for each in RESULTS]
    current: list[Callable[[], Any]] = []
    with local(with_tools(lambda: current[-1]())) as rt:
        for act, is_error in acts:
            current.append(act)
            events = run_turn(rt, "go")
            responses = [each.response for event in events for each in event.function_responses()]
            assert len(responses) == 2
            assert {"error" in response for response in responses} == {is_error}
            assert events[-1].text == "done"
        current.append(hostile.cancel_own_task)
        assert [each.response for event in run_turn(rt, "go") for each in event.function_responses()] == [
            {"error": "RuntimeError: no running event loop"},
            {"error": "waiting was cancelled by itself"},
        ]
        current.append(returns({"a": {1, 2}, "b": b"\xff", 3: (4,)}))
        ok = [each.response for event in run_turn(rt, "go") for each in event.function_responses()]
        assert ok == [{"a": [1, 2], "b": b"\xff", "3": [4]}] * 2
        check_session_works(rt)


@pytest.mark.parametrize(
    "change", [{"transfer_to_agent": 7}, {"escalate": "yes"}, {"state_delta": {"": 1}}, {"artifact_delta": {"f": "x"}}]
)
def test_an_action_that_cannot_be_is_told_to_the_model_and_not_taken(local: Deploy, change: dict[str, Any]) -> None:
    @tool
    def act(tool_context: Any) -> str:
        """Take it."""
        for name, value in change.items():
            setattr(tool_context.actions, name, value)
        return "taken"

    with local(LlmAgent(name="root", model=ToolCallingModel("act"), tools=[act])) as rt:
        _, response_event, last = run_turn(rt, "go")
        assert "cannot be stored" in next(response_event.function_responses()).response["error"]
        assert (response_event.actions, last.text) == (EventActions(), "done")
        check_session_works(rt)


HOOKS = [
    "before_agent_callback",
    "after_agent_callback",
    "before_model_callback",
    "after_model_callback",
    "before_tool_callback",
    "after_tool_callback",
    "on_event_callback",
    "before_run_callback",
    "after_run_callback",
    "on_user_message_callback",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("hook", HOOKS)
def test_whatever_a_hook_raises_its_turn_fails_and_the_next_one_works(local: Deploy, hook: str) -> None:
    for number, error in enumerate(EXITS):
        session = f"s{number}"
        agent = with_tools(returns("ok"))
        with local(agent, plugins=[hostile.acting_plugin(hook, raises(error))]) as rt:
            failed = PluginFailedError if "run" in hook or "message" in hook else AgentFailedError
            with pytest.raises(failed, match="coroutine raised StopIteration" if number == 4 else type(error).__name__):
                run_turn(rt, "go", session)
            check_session_works(rt, session)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("hook", HOOKS[:4] + HOOKS[7:])
def test_whatever_a_hook_returns_there_is_an_answer_or_an_error(local: Deploy, hook: str) -> None:
    strange: list[Any] = [7, object(), Content(parts=[Part(text=7)]), Content(parts="x"), Content(), Part(text="x"), {"a": 1}]  # type: ignore[arg-type]
    for number, value in enumerate(strange):
        session = f"s{number}"
        with local(with_tools(returns("ok")), plugins=[hostile.acting_plugin(hook, returns(value))]) as rt:
            failed = None
            try:
                run_turn(rt, "go", session)
            except RaygroveError as error:
                failed = error
            if failed is not None and hook != "on_user_message_callback":
                assert log(rt, session)[-1].error_code, failed
            check_session_works(rt, session)


def test_whatever_a_custom_agent_does_its_turn_fails_and_the_next_one_works(local: Deploy) -> None:
    acts = [
        *map(raises, EXITS),
        returns(None),
        returns("text"),
        returns(Event(content=Content(parts=[Part(text=7)]))),  # type: ignore[arg-type]
        returns(Event(content=Content(parts=[call(name="f", args="oops")]))),
        returns(Event(actions=EventActions(state_delta={"a": object()}))),
        returns(Event(actions=EventActions(state_delta={"": 1}))),
        returns(Event(actions=EventActions(transfer_to_agent="nobody"))),
        returns(Event(author="a\nb")),
        returns(Event(id="x" * 300)),
        returns(Event(custom_metadata=nested(150))),
        returns(Event(error_message="x" * 5_000_000)),
        returns(Event(timestamp="now")),  # type: ignore[arg-type]
    ]
    with local(ActingAgent(name="root", acts=acts)) as rt:
        for _ in acts:
            with pytest.raises(RaygroveError) as raised:
                run_turn(rt, "go")
            assert log(rt)[-1].error_code is not None, raised.value
        check_session_works(rt)


def test_a_run_that_cancels_itself_ends(local: Deploy) -> None:
    with local(ActingAgent(name="root", acts=[hostile.cancel_own_task])) as rt:
        with pytest.raises(TurnCancelledError):
            run_turn(rt, "go")
        check_session_works(rt)


def test_whatever_a_model_raises_its_turn_fails_and_the_next_one_works(local: Deploy) -> None:
    for number, error in enumerate(
        [*EXITS[:4], EXITS[5], Exception("x" * 10**7), Exception("\ud800"), ModelResponseError(object(), 1)]
    ):
        with local(LlmAgent(name="root", model=YieldingModel(error))) as rt:
            with pytest.raises(RaygroveError) as raised:
                run_turn(rt, "go", f"s{number}")
            assert len(str(raised.value)) < 10_000
            assert log(rt, f"s{number}")[-1].error_code == type(error).__name__
            check_session_works(rt, f"s{number}")


def test_on_ray_too_an_actor_outlives_what_its_agent_does(local_ray: str, tmp_path: Path) -> None:
    names = ("exits", "leaves", "floods")
    agent = LlmAgent(name="root", model=ToolCallingModel(*names), tools=[hostile.exits, hostile.leaves, hostile.floods])
    with Deploy("ray", tmp_path)(agent, settings=Settings(max_message_bytes=5_000_000)) as rt:
        events = run_turn(rt, "go")
        exited, left, flooded = (each.response for event in events for each in event.function_responses())
        assert (exited["error"], left["error"]) == ("SystemExit: 1", "RuntimeError: SystemExit: 2")
        # The whole is an artifact.
        assert flooded["artifact"]
        assert len(flooded["result"]) <= Settings().max_result_bytes
        assert events[-1].text == "done"
        pid = rt.statistics().agents["root"].pid
        with pytest.raises(TooLargeError, match="the message"):
            run_turn(rt, "x" * 5_000_001, "new")
        with pytest.raises(TooLargeError, match="the event of the message"):
            run_turn(rt, "x" * 4_500_000, "new")
        with pytest.raises(NotEncodableError, match="nested"):
            run_turn(rt, "hi", "new", state_delta={"k": nested(150)})
        with pytest.raises(NotEncodableError, match="text"):
            run_turn(rt, Content(parts=[Part(text=7)]), "new")  # type: ignore[arg-type]
        assert rt.sessions.get("ada", "new") is None
        check_session_works(rt)
        assert rt.statistics().agents["root"].pid == pid
