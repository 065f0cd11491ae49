"""Models that break the interface: the response is carried out as far as possible, or fails its turn; the next turn works."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from actors import Content, FunctionResponse, LlmAgent, LlmRequest, LlmResponse, Part, RunConfig, tool
from actors.errors import ModelResponseError, RaygroveError
from actors.layers.limiter.limits import ModelLimits
from runtime import Settings
from tests.support.agents.hostile_code import NARROW, YieldingModel, answer, call, check_session_works, log, nested
from tests.support.runtimes import Deploy, run_turn


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
