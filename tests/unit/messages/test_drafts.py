"""Drafts: copies of messages that callbacks change, lists that are converted as they are read, and keys as attributes."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import InvalidMessageError, NotEncodableError
from actors.messages.content import Blob, Content, FunctionCall, Part
from actors.messages.drafts import ContentDrafts, LazyList, draft_of_content, draft_of_response, own_content
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


def lazy(numbers: list[int]) -> LazyList:
    """Of numbers, which become texts."""
    return LazyList(numbers, int, str)


def changed_by(change: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """What a change returns, or the error that it raises, and the list after it."""

    def changed(elements: list[Any]) -> Any:
        try:
            result = change(elements)
        except (IndexError, ValueError) as error:
            result = type(error)
        return result, list(elements)

    return changed


def delete(elements: list[Any], place: Any) -> None:
    del elements[place]


def put(elements: list[Any], place: Any, value: Any) -> None:
    elements[place] = value


PLACES = st.integers(-6, 6)
SLICES = st.slices(6)
TEXTS = st.sampled_from("0123x")

CHANGES: st.SearchStrategy[Callable[[list[Any]], Any]] = st.one_of(
    PLACES.map(lambda at: lambda each: each[at]),
    SLICES.map(lambda at: lambda each: each[at]),
    st.tuples(PLACES, TEXTS).map(lambda put_at: lambda each: put(each, *put_at)),
    st.tuples(SLICES, st.lists(TEXTS)).map(lambda put_at: lambda each: put(each, *put_at)),
    PLACES.map(lambda at: lambda each: delete(each, at)),
    SLICES.map(lambda at: lambda each: delete(each, at)),
    PLACES.map(lambda at: lambda each: each.pop(at)),
    TEXTS.map(lambda text: lambda each: each.append(text)),
    TEXTS.map(lambda text: lambda each: each.remove(text)),
    st.tuples(PLACES, TEXTS).map(lambda put_at: lambda each: each.insert(*put_at)),
    st.lists(TEXTS).map(lambda texts: lambda each: each.extend(texts)),
    st.lists(TEXTS).map(lambda texts: lambda each: each.__iadd__(texts)),
    st.just(lambda each: each.extend(each)),
    st.just(lambda each: put(each, slice(0, 0), each)),
    st.just(lambda each: each.__imul__(2)),
    st.just(lambda each: each.clear()),
    st.just(lambda each: each.reverse()),
    st.just(lambda each: each.sort()),
    st.just(lambda each: each.sort(key=lambda text: -ord(text), reverse=True)),
)


@given(st.lists(st.integers(0, 3)), st.lists(CHANGES, max_size=8))
def test_it_is_changed_as_a_list_is(numbers: list[int], changes: list[Callable[[list[Any]], Any]]) -> None:
    ours, expected = lazy(numbers), [str(number) for number in numbers]
    for change in changes:
        assert changed_by(change)(copy.copy(ours)) == changed_by(change)(list(expected))
        # Of the list itself, without looking at all of it.
        result, wanted = _result(change, ours), _result(change, expected)
        assert (result is ours) == (wanted is expected)
        assert result is ours or result == wanted
        assert ours.restored(lambda text: ord(text) - ord("0")) == [ord(text) - ord("0") for text in expected]
    assert list(ours) == expected


def _result(change: Callable[[list[Any]], Any], elements: list[Any]) -> Any:
    try:
        return change(elements)
    except (IndexError, ValueError) as error:
        return type(error)


READS: list[Callable[[Any], Any]] = [
    list,
    tuple,
    set,
    sorted,
    repr,
    len,
    bool,
    any,
    json.dumps,
    copy.copy,
    copy.deepcopy,
    lambda each: pickle.loads(pickle.dumps(each)),
    lambda each: each.copy(),
    lambda each: each[:],
    lambda each: each[::-2],
    lambda each: list(reversed(each)),
    lambda each: [*each, *each],
    lambda each: operator.add(each, ["x"]),
    lambda each: operator.add(["x"], each),
    lambda each: each + each,
    lambda each: each * 2,
    lambda each: 2 * each,
    lambda each: list(zip(each, each, strict=True)),
    lambda each: "1" in each,
    lambda each: 1 in each,
    lambda each: each.count("1"),
    lambda each: each.index("3"),
    lambda each: (each == ["1", "2", "3"], each != ["1", "2", "3"], each == [1, 2, 3], each != [1, 2, 3], each == ("1",)),
    lambda each: (operator.eq(["1", "2", "3"], each), operator.ne(["1", "2", "3"], each)),
    lambda each: ",".join(each),
    lambda each: (lambda *all_of_it: all_of_it)(*each),
]


@pytest.mark.parametrize("read", READS)
def test_it_is_read_as_a_list_is(read: Callable[[Any], Any]) -> None:
    result, expected = read(lazy([1, 2, 3])), read(["1", "2", "3"])
    assert result == expected
    assert type(result) is type(expected)


def test_nothing_is_converted_before_it_is_looked_at_or_twice() -> None:
    looked_at: list[int] = []

    def convert(number: int) -> str:
        looked_at.append(number)
        return str(number)

    numbers = LazyList([1, 2, 3, 4], int, convert)
    assert numbers.is_as_given()
    assert (len(numbers), numbers[-1], numbers[3]) == (4, "4", "4")
    assert not numbers.is_as_given()
    numbers.append("5")
    del numbers[0]
    assert looked_at == [4]
    restored: list[str] = []
    assert numbers.restored(lambda text: restored.append(text) or int(text)) == [2, 3, 4, 5]  # type: ignore[func-returns-value]
    assert restored == ["4", "5"]
