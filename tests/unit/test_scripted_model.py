"""Fake models, which users get too."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from actors import Content, FunctionCall, FunctionResponse, LlmRequest, LlmResponse, Model, Part
from actors.errors import DefinitionError, ScriptExhaustedError
from actors.testing import PatternModel, ScriptedModel


async def ask(model: Model, *contents: Content, stream: bool = False) -> list[LlmResponse]:
    return [response async for response in model.generate(LlmRequest(agent="a", contents=list(contents)), stream=stream)]


async def one(model: Model, *contents: Content) -> Content | None:
    responses = await ask(model, *contents)
    assert len(responses) == 1
    assert not responses[0].partial
    return responses[0].content


def user(text: str) -> Content:
    return Content.of_text(text)


FORMS: list[tuple[Any, list[Part]]] = [
    ("hello", [Part(text="hello")]),
    ({"call": "f", "args": {"x": 1}}, [Part(function_call=FunctionCall(name="f", args={"x": 1}))]),
    ({"call": "f"}, [Part(function_call=FunctionCall(name="f"))]),
    ({"call": "f", "id": "c1"}, [Part(function_call=FunctionCall(id="c1", name="f"))]),
    ({"transfer": "b"}, [Part(function_call=FunctionCall(name="transfer_to_agent", args={"agent_name": "b"}))]),
    ({"thought": "hm"}, [Part(text="hm", thought=True)]),
    ({"parts": ["a", {"thought": "b"}]}, [Part(text="a"), Part(text="b", thought=True)]),
    ({"stream": ["a", "b"]}, [Part(text="ab")]),
    (Content(role="model", parts=[Part(text="x")]), [Part(text="x")]),
    (LlmResponse(content=Content(role="model", parts=[Part(text="y")])), [Part(text="y")]),
]


@pytest.mark.parametrize(("reply", "parts"), FORMS)
async def test_every_form_of_a_reply_is_said(reply: Any, parts: list[Part]) -> None:
    for model in (ScriptedModel([reply]), PatternModel([("", reply)])):
        said = await one(model, user("x"))
        assert said is not None
        assert (said.role, list(said.parts)) == ("model", parts)


async def test_none_says_nothing_and_an_exception_is_raised() -> None:
    model = ScriptedModel([None, ValueError("kaput"), KeyError])
    assert await one(model) is None
    with pytest.raises(ValueError, match="kaput"):
        await ask(model)
    with pytest.raises(KeyError):
        await ask(model)


@pytest.mark.parametrize("reply", [7, {}, {"say": "x"}, {"call": 1}, {"parts": [7]}, {"stream": "ab"}, ["x"]])
def test_what_is_no_reply_is_refused_when_the_model_is_made(reply: Any) -> None:
    with pytest.raises(DefinitionError, match="is no reply of a model"):
        ScriptedModel([reply])
    with pytest.raises(DefinitionError, match="is no reply of a model"):
        PatternModel([("x", reply)])


async def test_replies_are_given_in_order_and_running_out_is_an_error() -> None:
    model = ScriptedModel(["a", "b"])
    assert [await one(model), await one(model)] == [Content.of_text("a", "model"), Content.of_text("b", "model")]
    assert model.remaining == 0
    with pytest.raises(ScriptExhaustedError, match="only 2 replies and agent 'a'"):
        await ask(model)
    assert len(model.requests) == 3


async def test_a_text_is_streamed_in_pieces_before_the_whole() -> None:
    responses = await ask(ScriptedModel([{"stream": ["Hel", "lo"]}]), stream=True)
    assert [(response.partial, response.content and response.content.text) for response in responses] == [
        (True, "Hel"),
        (True, "lo"),
        (False, "Hello"),
    ]


async def test_texts_that_follow_each_other_are_one_when_they_are_streamed() -> None:
    model = ScriptedModel([{"parts": [{"thought": "hm"}, "Hel", "lo"]}] * 2)
    assert await one(model) == Content(role="model", parts=[Part(text="hm", thought=True), Part(text="Hel"), Part(text="lo")])
    *pieces, whole = await ask(model, stream=True)
    assert [piece.content and piece.content.text for piece in pieces] == ["Hel", "lo"]
    assert whole.content == Content(role="model", parts=[Part(text="hm", thought=True), Part(text="Hello")])


async def test_calls_and_thoughts_are_not_streamed_in_pieces() -> None:
    responses = await ask(ScriptedModel([{"parts": ["x", {"thought": "hm"}, {"call": "f"}]}]), stream=True)
    assert [response.partial for response in responses] == [True, False]


async def test_what_was_asked_is_kept() -> None:
    model = ScriptedModel(["a"])
    await one(model, user("hi"))
    assert [request.contents for request in model.requests] == [[user("hi")]]


async def test_another_copy_takes_over_what_one_has_become() -> None:
    living = pickle.loads(pickle.dumps(home := ScriptedModel(["a", "b"])))
    await one(living, user("hi"))
    home.follow(lambda: home.adopt(living.state()))
    assert home.remaining == 1
    assert [[content.text for content in request.contents] for request in home.requests] == [["hi"]]


async def test_the_first_pattern_in_the_newest_text_of_the_user_decides_without_regard_to_case() -> None:
    model = PatternModel([("bill", "billing"), ("late", "shipping")], default="what?")
    assert await one(model, user("my BILL is late")) == Content.of_text("billing", "model")
    assert await one(model, user("my bill"), Content.of_text("ok", "model"), user("it is late")) == Content.of_text(
        "shipping", "model"
    )
    assert await one(model, user("hm")) == Content.of_text("what?", "model")
    assert await one(model) == Content.of_text("what?", "model")


async def test_what_other_agents_said_is_not_the_users_text() -> None:
    told = Content(role="user", parts=[Part(text="For context:"), Part(text="[b] said: bill")])
    assert await one(PatternModel([("bill", "x"), ("hi", "y")]), user("hi"), told) == Content.of_text("y", "model")


async def test_a_tools_answer_is_told_or_met_by_a_pattern_for_tools() -> None:
    answer = Content(role="user", parts=[Part(function_response=FunctionResponse(id="c", name="look", response={"result": 7}))])
    assert await one(PatternModel([("hi", "x")]), user("hi"), answer) == Content.of_text('{"result":7}', "model")
    model = PatternModel([("hi", "x"), ("tool:look .*7", "seven")])
    assert await one(model, user("hi"), answer) == Content.of_text("seven", "model")
    assert await one(model, user("tool:look 7")) == Content.of_text("I do not know.", "model")


async def test_a_script_begins_anew_in_the_live_copy_too() -> None:
    model, live = ScriptedModel(["one", "two"]), list[ScriptedModel]()
    model.replace_by(lambda: live.append(pickle.loads(pickle.dumps(model))))
    await ask(model)
    model.restart(["three"])
    assert (model.replies, model.remaining, list(model.requests)) == (["three"], 1, [])
    assert (live[0].replies, live[0].remaining) == (["three"], 1)
    with pytest.raises(DefinitionError, match="is no reply of a model"):
        model.restart([7])  # type: ignore[list-item]
    assert (model.replies, len(live)) == (["three"], 1)
    model.replace_by(None)
    model.restart([])
    assert len(live) == 1
