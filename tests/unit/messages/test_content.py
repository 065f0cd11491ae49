"""A content in other forms: of google-genai and back, of web clients, and as what users pass as a message."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from google.genai import types

import runtime
from actors import Blob, Content, FunctionCall, Part
from actors.errors import InvalidMessageError
from runtime.driver.arguments import to_content

TO_GENAI = "from actors import Content; print(Content.of_text('hi').to_genai().parts[0].text)"


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process, where nothing is imported yet."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)


def test_a_content_has_a_genai_form_that_says_the_same() -> None:
    assert runtime.Runtime is not None
    content = Content(role="model", parts=[Part(text="hi"), Part(function_call=FunctionCall(id="c", name="f", args={"a": [1]}))])
    theirs = content.to_genai()
    assert isinstance(theirs, types.Content)
    assert Content.from_genai(theirs) == content


@pytest.mark.sampled(2)
@pytest.mark.parametrize("module", ["runtime", "runtime.cluster.processes.agent_host"])
def test_the_genai_form_is_there_wherever_runtime_is_imported(module: str) -> None:
    code = f"import sys, {module}; assert 'google.genai' not in sys.modules; {TO_GENAI}"
    done = python(code)
    assert done.stdout == "hi\n", done.stderr


def test_without_runtime_the_missing_sdk_is_named() -> None:
    assert "ImportError: Content.to_genai needs the google-genai SDK" in python(TO_GENAI).stderr


@pytest.mark.parametrize(
    "plain",
    [
        {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"data": "+/8=", "mimeType": "image/png"}}]},
        {"role": "user", "parts": [{"text": "hi", "thought": None}, {"inline_data": {"data": "-_8", "mime_type": "image/png"}}]},
        {"role": "user", "parts": ({"text": "hi"}, {"inlineData": {"data": b"\xfb\xff", "mimeType": "image/png"}})},
        {"role": "user", "parts": [Part(text="hi"), {"inlineData": Blob(data=b"\xfb\xff", mime_type="image/png")}]},
    ],
)
def test_a_dictionary_of_a_web_client_becomes_a_content(plain: dict[str, Any]) -> None:
    blob = Blob(data=b"\xfb\xff", mime_type="image/png")
    assert Content.from_dict(plain) == Content(role="user", parts=[Part(text="hi"), Part(inline_data=blob)])


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"text": "hi"}, "message has no field 'text'. Its fields are role, parts"),
        ({"parts": {"text": "hi"}}, "message.parts has to be a list, not a dict"),
        ({"parts": "hi"}, "message.parts has to be a list, not 'hi'"),
        ({"parts": ["hi"]}, "message.parts[0] has to be an object with the fields text, thought, "),
        ({"parts": [{"txt": "hi"}]}, "message.parts[0] has no field 'txt'. Did you mean 'text'?"),
        ({"parts": [{"text": 7}]}, "message.parts[0].text: Expected `str | null`, got `int`"),
        (
            {"parts": [{"text": "a"}, {"functionResponse": {"respons": {}}}]},
            "message.parts[1].functionResponse has no field 'respons'",
        ),
        ({"parts": [{"functionResponse": {"response": []}}]}, "message.parts[0].functionResponse.response: Expected `object`"),
        ({"parts": [{"inlineData": {"data": "§"}}]}, "message.parts[0].inlineData.data is no base64"),
        (
            {"parts": [{"inlineData": {"data": 7}}]},
            "message.parts[0].inlineData.data has to be bytes, or a text in base64, not 7",
        ),
        ({"parts": [{"inlineData": {}, "inline_data": {}}]}, "message.parts[0] has the field 'inlineData' twice"),
        ({1: "user"}, "message has no field 1."),
        ([], "message has to be an object with the fields role, parts, not a list"),
    ],
)
def test_what_is_wrong_in_it_is_named(plain: Any, message: str) -> None:
    with pytest.raises(InvalidMessageError, match=re.escape(message)):
        Content.from_dict(plain)


@pytest.mark.parametrize("text", ["{", "[]", "7", b"\xff", "[" * 100_000])
def test_what_is_no_json_of_a_content_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidMessageError, match=r"^message "):
        Content.from_json(text)


def test_a_field_that_only_a_newer_sdk_has_is_refused_unless_it_is_empty() -> None:
    # google-genai's JSON has all fields, most of them null.
    assert Content.from_dict({"parts": [{"text": "hi", "hologram": None}], "aura": None}) == Content(parts=[Part(text="hi")])
    with pytest.raises(InvalidMessageError, match=re.escape("message.parts[0] has no field 'hologram'")):
        Content.from_dict({"parts": [{"text": "hi", "hologram": {}}]})


class NewerContent(types.Content):
    """A Content of an SDK whose parts have a field more than the parts that raygrove knows."""

    hologram: Any = None

    def model_dump(self, **options: Any) -> dict[str, Any]:
        plain = super().model_dump(**options)
        return {"parts": [{**part, "hologram": self.hologram} for part in plain["parts"]]}


def test_a_content_of_the_sdk_is_taken_with_all_that_it_has() -> None:
    theirs = types.Content(
        role="user",
        parts=[
            types.Part(inline_data=types.Blob(data=b"\xff\xfe", mime_type="a/b"), video_metadata=types.VideoMetadata(fps=2.0)),
            types.Part(text="hi", part_metadata={"page": 1}),
        ],
    )
    assert to_content(theirs) == Content.from_genai(theirs)
    assert to_content(theirs).parts[1] == Part(text="hi", part_metadata={"page": 1})


def test_what_only_a_newer_sdk_has_is_refused_by_name_and_no_part_of_a_message_is_lost() -> None:
    parts = [types.Part(text="hi")]
    assert to_content(NewerContent(parts=parts)) == Content(parts=[Part(text="hi")])
    with pytest.raises(InvalidMessageError, match=re.escape("message.parts[0] has no field 'hologram'")):
        to_content(NewerContent(parts=parts, hologram={"depth": 3}))
