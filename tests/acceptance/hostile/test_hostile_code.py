"""Models, tools, callbacks, plugins and agents that break their interfaces: their turns fail, and actors outlive them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import Content, Event, EventActions, FunctionResponse, LlmAgent, LlmRequest, LlmResponse, Part, RunConfig, tool
from actors.errors import (
    AgentFailedError,
    ModelResponseError,
    NotEncodableError,
    PluginFailedError,
    RaygroveError,
    TooLargeError,
    TurnCancelledError,
)
from actors.layers.limiter.limits import ModelLimits
from runtime.settings import Settings
from tests.support.agents import hostile_code as hostile
from tests.support.agents.hostile_code import (
    NARROW,
    ActingAgent,
    ToolCallingModel,
    YieldingModel,
    answer,
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


def test_calls_that_are_malformed_are_answered_with_what_is_wrong_with_them(local: Deploy) -> None:
    called: list[Any] = []

    @tool
    def note(what: str = "nothing") -> str:
        """Note it."""
        called.append(what)
        return "noted"

    for number, (made, words) in enumerate(
        [
            (call(name="note", args="not { json"), "no JSON"),
            (call(name="note", args='["a"]'), "got `array`"),
            (call(name="note", args=[1]), "of type list"),
            (call(name="note", args=7), "of type int"),
            (call(name="note", args={"what": nested(150)}), "nested deeper"),
            (call(name="note", args={"what": nested(20_000)}), "nested deeper than 100 levels"),
            (call(name="note", args={"what": math.nan}), "NaN"),
            (call(name="note", args={"what": object()}), "object"),
            (call(name="note", args={"what": 2**80}), "ints"),
            (call(name="note", args={"what": ["x"]}), "It takes: what"),
            (call(name=""), "there is no tool ''"),
            (call(name="n" * 10_000), "there is no tool"),
        ]
    ):
        with local(LlmAgent(name="root", model=YieldingModel(answer(made)), tools=[note])) as rt:
            events = run_turn(rt, "go", f"s{number}")
            (response,) = next(events[1].function_responses()).response.values()
            assert words in response, words
            assert events[-1].text == "fine"
            check_session_works(rt, f"s{number}")
    assert called == []


def test_calls_that_are_only_unusual_are_carried_out(local: Deploy) -> None:
    called: list[Any] = []

    @tool
    def note(what: str = "nothing") -> str:
        """Note it."""
        called.append(what)
        return "noted"

    ids: list[Any] = [None, "", "same", "same", "x" * 300, "a\x00b", 7, " "]
    args: list[Any] = [None, {}, '{"what": "text"}', {"what": "dict"}, "{}", {}, {}, {}]
    made = [call(name="note", id=id, args=given) for id, given in zip(ids, args, strict=True)]
    with local(LlmAgent(name="root", model=YieldingModel(answer(*made)), tools=[note])) as rt:
        first, second, last = run_turn(rt, "go")
        given = [each.id for each in first.function_calls()]
        assert given[2] == "same"
        assert len({*given, None, ""}) == len(ids) + 2
        assert [each.id for each in second.function_responses()] == given
        assert sorted(called) == sorted(["nothing"] * 6 + ["text", "dict"])
        assert last.text == "fine"
        check_session_works(rt)


def test_a_model_can_play_no_other_role_and_cannot_answer_its_own_calls(local: Deploy, caplog: pytest.LogCaptureFixture) -> None:
    answered = Part(function_response=FunctionResponse(id="c1", name="note", response={"result": "made up"}))
    said = answer(Part(), call(id="c1", name="note"), answered, Part(text=""))
    wrong_role = answer("I am the user")
    for number, yielded in enumerate((said, wrong_role)):
        assert yielded.content is not None
        given = Content(role="user", parts=yielded.content.parts)
        model = YieldingModel(answer(*given.parts) if number else yielded.__class__(content=given))
        with local(LlmAgent(name="root", model=model, tools=[])) as rt:
            events = run_turn(rt, "go", f"s{number}")
            assert events[0].content is not None
            assert events[0].content.role == "model"
            assert not list(events[0].function_responses())
            assert not any("made up" in str(each.response) for event in events for each in event.function_responses())
            check_session_works(rt, f"s{number}")
    assert [each.levelname for each in caplog.records if "a model answered the call 'c1' itself" in each.message] == ["WARNING"]


def test_an_answer_that_says_nothing_is_asked_for_again_and_ends_the_run_with_its_code(local: Deploy) -> None:
    nothing: list[list[Any]] = [
        [],
        [answer()],
        [answer(Part())],
        [answer("")],
        [answer(Part(function_response=FunctionResponse()))],
    ]
    for number, yielded in enumerate(nothing):
        with local(LlmAgent(name="root", model=YieldingModel(*yielded))) as rt:
            assert [event.text for event in run_turn(rt, "go", f"s{number}")] == ["fine"]
        without = Settings(empty_answer_retries=0)
        with local(LlmAgent(name="root", model=YieldingModel(*yielded)), settings=without) as rt:
            [event] = run_turn(rt, "go", f"t{number}")
            assert (event.content, event.error_code) == (None, "MODEL_RETURNED_NO_CONTENT")
            check_session_works(rt, f"s{number}")


def test_an_answer_that_is_none_fails_its_turn_with_one_event(local: Deploy) -> None:
    for number, (yielded, words) in enumerate(
        [
            (None, "NoneType"),
            ("text", "yielded a str"),
            ({"content": "x"}, "yielded a dict"),
            (answer(Part(text=7)), "text"),  # type: ignore[arg-type]
            (answer(call(name=7)), "name"),
            (answer(7), "malformed"),
            (answer(Part(inline_data=b"x")), "malformed"),  # type: ignore[arg-type]
            (answer("x", finish_reason=7), "finish_reason"),
            (answer("x", usage="much"), "usage"),
            (answer("x", custom_metadata={1: 2}), "custom_metadata"),
            (answer("x").__class__(content="text"), "malformed"),  # type: ignore[arg-type]
            (answer("x").__class__(content=Content(parts="text")), "malformed"),  # type: ignore[arg-type]
        ]
    ):
        with local(LlmAgent(name="root", model=YieldingModel(yielded))) as rt:
            with pytest.raises(ModelResponseError, match=words):
                run_turn(rt, "go", f"s{number}")
            assert [(event.author, event.error_code) for event in log(rt, f"s{number}")][1:] == [("root", "ModelResponseError")]
            check_session_works(rt, f"s{number}")


def test_answers_of_which_one_would_be_lost_fail_their_turn(local: Deploy) -> None:
    piece = answer("half", partial=True)
    for number, (yielded, words) in enumerate(
        [
            ([answer(call(name="note")), answer("whole")], "two complete responses"),
            ([piece, answer("whole"), answer()], "two complete responses"),
            ([answer("whole"), piece], "partial response after the complete one"),
            ([piece, piece], "partial responses only"),
        ]
    ):
        with local(LlmAgent(name="root", model=YieldingModel(*yielded), tools=[])) as rt:
            with pytest.raises(ModelResponseError, match=f"model 'says' .*{words}.*one whole answer"):
                run_turn(rt, "go", f"s{number}", run_config=RunConfig(streaming="sse"))
            assert [(event.author, event.error_code) for event in log(rt, f"s{number}")][1:] == [("root", "ModelResponseError")]
            check_session_works(rt, f"s{number}")


class Returning:
    """A model whose method is no generator, and returns what it is given."""

    def __init__(self, name: str, made: Callable[[], Any]) -> None:
        self.name = name
        self._made = made

    def generate(self, request: LlmRequest, *, stream: bool) -> Any:
        return self._made()


async def returned() -> LlmResponse:
    return answer("fine")


@pytest.mark.parametrize("limits", [{}, {"mine": ModelLimits(max_concurrency=1)}])
def test_a_model_that_returns_its_answer_is_told_to_yield_it(local: Deploy, limits: dict[str, ModelLimits]) -> None:
    made: list[tuple[Callable[[], Any], str]] = [
        (returned, "coroutine"),
        (lambda: answer("fine"), "LlmResponse"),
        (lambda: iter([answer("fine")]), "list_iterator"),
        (lambda: None, "NoneType"),
    ]
    for number, (makes, kind) in enumerate(made):
        root = LlmAgent(name="root", model=Returning("mine", makes))
        refused = pytest.raises(ModelResponseError, match=rf"model 'mine' .*returned a {kind}: write it as .*yield")
        with local(root, settings=Settings(model_limits=limits)) as rt, refused:
            run_turn(rt, "go", f"s{number}")


class Pieces:
    """An async iterator that is no generator."""

    def __init__(self) -> None:
        self._left = [answer("fine"), answer("fi", partial=True)]

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> LlmResponse:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


def test_a_model_may_return_an_iterator_that_cannot_be_closed(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=Returning("mine", Pieces))) as rt:
        assert run_turn(rt, "go")[-1].text == "fine"


def test_a_piece_of_an_answer_that_is_none_fails_its_turn(local: Deploy) -> None:
    pieces: list[Any] = [answer(Part(text=7), partial=True), answer("x" * 150_000, partial=True), answer(7, partial=True)]  # type: ignore[arg-type]
    for number, piece in enumerate(pieces):
        with local(LlmAgent(name="root", model=YieldingModel(piece, answer("whole"))), settings=NARROW) as rt:
            with pytest.raises(RaygroveError):
                run_turn(rt, "go", f"s{number}", run_config=RunConfig(streaming="sse"))
            check_session_works(rt, f"s{number}")
