"""Callbacks written for ADK, with google-genai's types: what they may do to a request and to a response."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from actors import (
    CallbackContext,
    Content,
    FunctionCall,
    FunctionTool,
    GenerateContentConfig,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    RunConfig,
)
from actors.errors import AgentFailedError
from actors.testing import ScriptedModel
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, lossy_runtime
from tests.support.runtimes import Deploy, author_texts, run_turn, stored


def guard(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse | None:
    """As in ADK's tutorial: it marks the system instruction, and answers itself where a word is not allowed."""
    instruction: Any = llm_request.config.system_instruction or types.Content(role="system", parts=[])
    if not isinstance(instruction, types.Content):
        instruction = types.Content(role="system", parts=[types.Part(text=str(instruction))])
    instruction.parts[0].text = f"[checked] {instruction.parts[0].text}"
    llm_request.config.system_instruction = instruction
    if "BLOCK" in (llm_request.contents[-1].parts[0].text or ""):
        refusal: Any = types.Content(role="model", parts=[types.Part(text="I may not talk about that.")])
        return LlmResponse(content=refusal)
    return None


def polish(callback_context: CallbackContext, llm_response: LlmResponse) -> LlmResponse | None:
    """As in ADK's tutorial: it gives a response of its own, made of changed copies of the parts."""
    assert llm_response.content is not None
    text = llm_response.content.parts[0].text
    if not text:
        return None
    parts: Any = [copy.deepcopy(part) for part in llm_response.content.parts]
    parts[0].text = text.replace("joke", "funny story")
    content: Any = types.Content(role="model", parts=parts)
    return LlmResponse(content=content, grounding_metadata=llm_response.grounding_metadata)


def test_the_guard_rails_of_adks_tutorials_work(deploy: Deploy) -> None:
    model = ScriptedModel(["Here is a joke."])
    root = LlmAgent(name="root", model=model, instruction="Be kind.", before_model_callback=guard, after_model_callback=polish)
    with deploy(root) as rt:
        assert author_texts(run_turn(rt, "BLOCK this")) == [("root", "I may not talk about that.")]
        assert author_texts(run_turn(rt, "Tell me one")) == [("root", "Here is a funny story.")]
        assert stored(rt)[1].content == Content.of_text("I may not talk about that.", role="model")
        assert model.requests[0].system_instruction.startswith("[checked] Be kind.")


def rewrite(context: CallbackContext, request: LlmRequest) -> None:
    """Changes the conversation in place, and adds to it in three forms."""
    contents: Any = request.contents
    contents[0].parts[0].text = contents[0].parts[0].text.replace("4000-1234", "[card]")
    contents.append(types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="f", args={"a": 1}))]))
    contents.append(Content.of_text("and ours"))
    contents.append(Content(role="user", parts=[Part(text="mixed"), types.Part(inline_data=types.Blob(data=b"\xff"))]))  # type: ignore[list-item]


def test_a_callback_changes_the_conversation_of_its_request_only(local: Deploy) -> None:
    model = ScriptedModel(["one", "two"])
    with local(LlmAgent(name="root", model=model, before_model_callback=rewrite)) as rt:
        run_turn(rt, "pay 4000-1234")
        run_turn(rt, "again")
        assert [event.text for event in stored(rt)] == ["pay 4000-1234", "one", "again", "two"]
    first, second = (list(request.contents) for request in model.requests)
    assert [content.text for content in first] == ["pay [card]", "", "and ours", "mixed"]
    assert [content.text for content in second] == ["pay [card]", "one", "again", "", "and ours", "mixed"]
    assert {type(each) for each in [*first, *second]} == {Content}
    assert {type(part) for content in first for part in content.parts} == {Part}
    assert next(first[1].function_calls()).args == {"a": 1}
    assert first[3].parts[1].inline_data is not None
    assert first[3].parts[1].inline_data.data == b"\xff"


def configure(context: CallbackContext, request: LlmRequest) -> None:
    config = request.config
    assert config.temperature == config["temperature"] == 0.5
    assert config.top_k is None
    config.temperature = 0.1
    config.labels["team"] = "blue"
    config.stop_sequences.append("END")
    config.safety_settings = [
        types.SafetySetting(category=types.HarmCategory.HARM_CATEGORY_HARASSMENT, threshold=types.HarmBlockThreshold.BLOCK_NONE)
    ]
    config.thinking_config = types.ThinkingConfig(thinking_budget=7)
    config.thinking_config.include_thoughts = True
    config.tools = [types.Tool(google_search=types.GoogleSearch())]
    request.append_instructions(["Be brief.", "Be kind."])
    request.append_instructions(types.Content(parts=[types.Part(text="Be right.")]))  # type: ignore[arg-type]


def test_the_configuration_of_a_request_has_attributes_and_is_its_own(local: Deploy) -> None:
    model = ScriptedModel(["one", "two"])
    given = {"temperature": 0.5, "labels": {"app": "x"}, "stop_sequences": ["STOP"]}
    root = LlmAgent(name="root", model=model, generate_content_config=given, before_model_callback=configure)
    with local(root) as rt:
        run_turn(rt, "hi")
        run_turn(rt, "again")
    for request in model.requests:
        assert request.system_instruction.endswith("\n\nBe brief.\n\nBe kind.\n\nBe right.")
        assert request.config == {
            "temperature": 0.1,
            "labels": {"app": "x", "team": "blue"},
            "stop_sequences": ["STOP", "END"],
            "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            "thinking_config": {"include_thoughts": True, "thinking_budget": 7},
            "tools": [{"google_search": {}}],
            "system_instruction": request.system_instruction,
        }


def test_a_configuration_needs_no_google_genai(local: Deploy) -> None:
    model = ScriptedModel(["one"])
    given = GenerateContentConfig(temperature=0.2, labels={"team": "blue"})
    with local(LlmAgent(name="root", model=model, generate_content_config=given)) as rt:
        run_turn(rt, "hi")
    assert (model.requests[0].config.temperature, model.requests[0].config.labels.team) == (0.2, "blue")
    request = LlmRequest(config=types.GenerateContentConfig(top_k=3, tools=None))
    assert (request.config.top_k, request.config) == (3, {"top_k": 3})
    del request.config.top_k
    assert request.config == {}
    with pytest.raises(TypeError, match="a config must be a GenerateContentConfig or a dictionary of its fields, not int"):
        LlmRequest(config=3)


def configure_anew(context: CallbackContext, request: LlmRequest) -> None:
    request.config = types.GenerateContentConfig(temperature=0.3, system_instruction="Be new.")


def test_a_callback_may_give_a_configuration_of_google_genai(local: Deploy) -> None:
    model = ScriptedModel(["one"])
    with local(LlmAgent(name="root", model=model, before_model_callback=configure_anew)) as rt:
        run_turn(rt, "hi")
    assert model.requests[0].config == {"temperature": 0.3, "system_instruction": "Be new."}


def dice(sides: int) -> int:
    """Roll a die."""
    return sides


def lend_dice(context: CallbackContext, request: LlmRequest) -> None:
    if "dice" in request.contents[0].text:
        request.append_tools([FunctionTool(dice)])
        assert list(request.tools_dict) == ["dice"]


def test_tools_that_a_callback_appends_can_be_called(local: Deploy) -> None:
    model = ScriptedModel([{"call": "dice", "args": {"sides": 6}}, "six", {"call": "dice", "args": {"sides": 6}}, "none"])
    with local(LlmAgent(name="root", model=model, before_model_callback=lend_dice)) as rt:
        called = run_turn(rt, "dice please")
        assert next(called[1].function_responses()).response == {"result": 6}
        assert [tool.name for tool in model.requests[0].tools] == ["dice"]
        without = run_turn(rt, "no more", session_id="s2")
        assert "there is no tool 'dice'" in next(without[1].function_responses()).response["error"]


class Roller:
    """A model that calls the tool once, also when it is asked again after a loss."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        has_rolled = any(any(content.function_responses()) for content in request.contents)
        call = Part(function_call=FunctionCall(name="dice", args={"sides": 6}))
        yield LlmResponse(content=Content(role="model", parts=[Part(text="six") if has_rolled else call]))


@pytest.mark.parametrize("before", [True, False])
def test_tools_that_a_callback_appends_can_be_called_after_a_loss(tmp_path: Path, before: bool) -> None:
    def said(folder: str, losses: list[Loss]) -> tuple[list[str], LossyEngine]:
        (tmp_path / folder).mkdir()
        root = LlmAgent(name="root", model=Roller(), before_model_callback=lend_dice)
        rt, engine = lossy_runtime(root, tmp_path / folder, losses)
        with rt:
            events = run_turn(rt, "dice please")
        return [f"{event.text} {[each.response for each in event.function_responses()]}" for event in events], engine

    expected, engine = said("whole", [])
    assert "6" in expected[1]
    for at in range(engine.messages):
        assert said(str(at), [Loss(at, "agents", before)])[0] == expected


def cite(context: CallbackContext, response: LlmResponse) -> None:
    """As an agent of adk-samples does it: the sources are added to the answer, and its parts joined, in place."""
    content: Any = response.content
    metadata: Any = response.grounding_metadata
    sources = [f"{chunk.web.title}: {chunk.web.uri}" for chunk in metadata.grounding_chunks or [] if chunk.web]
    content.parts.append(types.Part(text="\n".join(sources)))
    content.parts[0].text = "\n".join(part.text for part in content.parts)
    del content.parts[1:]


def test_a_callback_changes_a_response_in_place(local: Deploy) -> None:
    found = {"groundingChunks": [{"web": {"title": "Ray", "uri": "https://ray.io"}}], "webSearchQueries": ["ray"]}
    said = LlmResponse(content=Content.of_text("It runs actors.", role="model"), grounding_metadata=found)
    with local(LlmAgent(name="root", model=ScriptedModel([said]), after_model_callback=cite)) as rt:
        run_turn(rt, "What is Ray?")
        event = stored(rt)[-1]
        assert event.content == Content.of_text("It runs actors.\nRay: https://ray.io", role="model")
        assert event.grounding_metadata == found


class TheirContents:
    """A model that yields objects of google-genai."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        for text in ("hel", "lo") if stream else ():
            yield LlmResponse(content=self._content(text), partial=True)
        found: Any = types.GroundingMetadata(web_search_queries=["hello"])
        yield LlmResponse(content=self._content("hello"), grounding_metadata=found, finish_reason=types.FinishReason.STOP)

    def _content(self, text: str) -> Any:
        return types.Content(role="model", parts=[types.Part(text=text)])


def test_a_model_may_yield_contents_of_google_genai(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=TheirContents())) as rt:
        events = run_turn(rt, "hi", run_config=RunConfig(streaming="sse"))
        assert [(event.text, bool(event.partial)) for event in events] == [("hel", True), ("lo", True), ("hello", False)]
        assert (events[-1].grounding_metadata, events[-1].finish_reason) == ({"webSearchQueries": ["hello"]}, "STOP")


def say_nonsense(context: CallbackContext, request: LlmRequest) -> None:
    request.contents.append("and this")  # type: ignore[arg-type]


def instruct_nonsense(context: CallbackContext, request: LlmRequest) -> None:
    request.append_instructions("Be brief.")


def lend_nonsense(context: CallbackContext, request: LlmRequest) -> None:
    request.append_tools([dice])  # type: ignore[list-item]


def show_nonsense(context: CallbackContext, request: LlmRequest) -> None:
    request.config.system_instruction = types.Content(parts=[types.Part(inline_data=types.Blob(data=b"x"))])


@pytest.mark.parametrize(
    ("callback", "told"),
    [
        (say_nonsense, "a content must be a Content, ours or google-genai's, not str"),
        (instruct_nonsense, r"append_instructions takes a list of texts: write append_instructions\(\['Be brief.'\]\)"),
        (lend_nonsense, "append_tools takes Tool objects, not function: make a FunctionTool of a function"),
        (show_nonsense, "a system instruction must be a text, or a Content whose parts are texts"),
    ],
)
def test_what_a_request_cannot_take_is_named(local: Deploy, callback: Any, told: str) -> None:
    root = LlmAgent(name="root", model=ScriptedModel(["x"]), before_model_callback=callback)
    with local(root) as rt, pytest.raises(AgentFailedError, match=told):
        run_turn(rt, "hi")
