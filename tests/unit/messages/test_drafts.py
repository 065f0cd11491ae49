"""Drafts: copies of messages that callbacks change in place, and objects whose keys are attributes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from google.genai import types

from actors.errors import InvalidMessageError, NotEncodableError
from actors.messages.content import Blob, Content, FunctionCall, Part
from actors.messages.drafts import ContentDrafts, draft_of_content, draft_of_response, own_content
from actors.messages.llm import Fields, GenerateContentConfig, LlmResponse

CALL = Content(
    role="model", parts=[Part(text="a", thought=True), Part(function_call=FunctionCall(id="c", name="f", args={"x": {"y": 1}}))]
)
DATA = Content(role="user", parts=[Part(inline_data=Blob(data=b"\xff", mime_type="image/png"), thought_signature=b"s")])


@pytest.mark.parametrize("content", [CALL, DATA, Content(role="user")])
def test_a_draft_equals_its_message_until_it_is_changed(content: Content) -> None:
    draft = draft_of_content(content)
    assert draft == content
    assert content == draft
    assert isinstance(draft, Content)
    assert repr(draft).startswith("Content(")
    assert copy.deepcopy(draft) == draft
    changed: Any = draft
    changed.parts.append(Part(text="more"))
    changed.role = "other"
    assert draft != content
    assert own_content(draft) == Content(role="other", parts=[*content.parts, Part(text="more")])


def test_what_is_changed_in_a_draft_is_not_changed_in_the_message() -> None:
    draft: Any = draft_of_content(CALL)
    draft.parts[0].text = "b"
    draft.parts[1].function_call.name = "g"
    draft.parts[1].function_call.args["x"]["y"] = 2
    assert own_content(draft).parts[1].function_call == FunctionCall(id="c", name="g", args={"x": {"y": 2}})
    assert CALL.parts[0].text == "a"
    assert next(CALL.function_calls()).args == {"x": {"y": 1}}


def test_contents_become_drafts_when_they_are_looked_at() -> None:
    contents = ContentDrafts([CALL, DATA, CALL])
    assert contents[-1] == CALL
    assert [type(each) is Content for each in list.__iter__(contents)] == [True, True, False]
    assert contents[0:2] == [CALL, DATA]
    assert [each.role for each in reversed(contents)] == ["model", "user", "model"]
    changed: Any = contents[1]
    changed.role = "model"
    contents.insert(0, types.UserContent(parts=[types.Part(text="theirs")]))
    settled = contents.settled()
    assert [each.role for each in settled] == ["user", "model", "model", "model"]
    assert {type(each) for each in settled} == {Content}
    assert settled[1] is not CALL


def test_a_content_of_ours_may_hold_parts_of_another_kind() -> None:
    mixed: Any = [Part(text="a"), types.Part(text="b"), {"text": "c"}, draft_of_content(Content.of_text("d")).parts[0]]
    assert own_content(Content(role="user", parts=mixed)) == Content(role="user", parts=[Part(text=text) for text in "abcd"])


class Broken(types.Content):
    def model_dump(self, **_: Any) -> Any:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("text", TypeError),
        (Content(parts=[3]), TypeError),  # type: ignore[list-item]
        ({"part": []}, InvalidMessageError),
        (types.Part(text="a"), TypeError),
        (Broken(parts=[]), NotEncodableError),
    ],
)
def test_what_is_no_content_is_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        own_content(given)


def test_the_metadata_of_a_response_has_attributes_in_either_case() -> None:
    found = {"groundingChunks": [{"web": {"uri": "u"}}], "webSearchQueries": ["q"]}
    metadata: Any = draft_of_response(LlmResponse(grounding_metadata=found)).grounding_metadata
    assert metadata.grounding_chunks[0].web.uri == metadata.groundingChunks[0]["web"]["uri"] == "u"
    assert (metadata.search_entry_point, metadata.web_search_queries) == (None, ["q"])
    metadata.web_search_queries = ["r"]
    assert metadata == {**found, "webSearchQueries": ["r"]}
    with pytest.raises(AttributeError, match="Fields has no attribute '_x'"):
        _ = Fields()._x


def test_a_configuration_of_google_genai_becomes_plain_data() -> None:
    theirs = types.GenerateContentConfig(
        media_resolution=types.MediaResolution.MEDIA_RESOLUTION_LOW,
        response_modalities=["TEXT"],
        thinking_config=types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW),
        tools=[types.Tool(google_search=types.GoogleSearch())],
        seed=None,
    )
    ours = GenerateContentConfig.of(theirs)
    assert ours == {
        "media_resolution": "MEDIA_RESOLUTION_LOW",
        "response_modalities": ["TEXT"],
        "thinking_config": {"thinking_level": "LOW"},
        "tools": [{"google_search": {}}],
    }
    # An enum of google-genai would load the SDK into each agent's process.
    assert type(ours["media_resolution"]) is str
