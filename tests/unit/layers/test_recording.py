"""Requests are taken apart into parts that are stored once, and come back as they were, or masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Blob, Content, FunctionCall, FunctionResponse, Part
from actors.errors import NotEncodableError
from actors.layers.recording.messages import Recording
from actors.layers.recording.rules import GROUP, MissingPartError, RequestPacker, reachable, unpacked
from actors.messages.codec import encode
from actors.messages.content import CodeExecutionResult, ExecutableCode, FileData
from actors.messages.llm import FunctionDeclaration, LlmRequest
from actors.messages.protocol.log import PackedPart

LARGE = 10**6


def text(number: int) -> Content:
    return Content.of_text(f"text {number}")


def by_digest(parts: Sequence[PackedPart]) -> dict[bytes, bytes]:
    return {part.digest: part.raw for part in parts}


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
PARTS = st.one_of(
    st.builds(lambda said: Part(text=said), st.text(max_size=8)),
    st.builds(lambda data: Part(inline_data=Blob(data=data, mime_type="image/png")), st.binary(max_size=8)),
    st.builds(
        lambda args: Part(function_call=FunctionCall(id="c", name="f", args=args)),
        st.dictionaries(st.text(max_size=3), VALUES, max_size=2),
    ),
)
REQUESTS = st.builds(
    LlmRequest,
    model=st.sampled_from(["", "m"]),
    agent=st.sampled_from(["a", "ä"]),
    contents=st.lists(st.builds(Content, role=st.sampled_from(["user", "model", None]), parts=st.lists(PARTS, max_size=2))),
    tools=st.lists(st.builds(FunctionDeclaration, name=st.sampled_from("fg"), description=st.text(max_size=4)), max_size=2),
    config=st.permutations([("system_instruction", "be good"), ("temperature", 0.2), ("stop", ["x"]), ("seed", None)]).flatmap(
        lambda items: st.integers(0, 4).map(lambda count: dict(items[:count]))
    ),
    output_schema=st.sampled_from([None, {}, {"type": "object"}]),
)


@given(st.lists(REQUESTS, max_size=4))
def test_whatever_was_asked_comes_back_byte_for_byte(requests: list[LlmRequest]) -> None:
    packer, packed = RequestPacker(LARGE), []
    parts: dict[bytes, bytes] = {}
    for request in requests:
        made, new = packer.packed(request)
        assert not set(by_digest(new)) & set(parts), "a part is given once"
        parts |= by_digest(new)
        packed.append(made)
    assert [encode(unpacked(each, parts)) for each in packed] == [encode(each) for each in requests]
    assert reachable(packed, parts_of(parts)) == set(parts), "all that is stored is needed, and nothing else"


def parts_of(parts: Mapping[bytes, bytes]) -> Any:
    return lambda digests: {digest: parts[digest] for digest in digests if digest in parts}


@pytest.mark.parametrize("count", [0, 1, GROUP - 1, GROUP, GROUP + 1, GROUP**2 - 1, GROUP**2, GROUP**2 + GROUP + 1])
def test_a_conversation_of_any_length_comes_back(count: int) -> None:
    request = LlmRequest(contents=[text(number) for number in range(count)])
    packed, parts = RequestPacker(LARGE).packed(request)
    assert encode(unpacked(packed, by_digest(parts))) == encode(request)
    assert len(encode(packed)) < 2_000, "a request names few digests, however long it is"


def test_room_grows_with_the_length_of_a_conversation_and_not_with_its_square() -> None:
    def stored(count: int) -> int:
        packer, size = RequestPacker(LARGE), 0
        contents: list[Content] = []
        for number in range(count):
            contents.append(text(number))
            packed, parts = packer.packed(LlmRequest(contents=list(contents), config={"system_instruction": "x" * 1000}))
            size += len(encode(packed)) + sum(len(part.raw) + len(part.digest) for part in parts)
        return size

    assert stored(2000) < 2.2 * stored(1000)
    assert stored(1000) < 1000 * 700


def test_a_packer_of_another_run_gives_the_same_digests() -> None:
    request = LlmRequest(contents=[text(number) for number in range(40)], config={"system_instruction": "hi"})
    one, _ = RequestPacker(LARGE).packed(request)
    other, parts = RequestPacker(LARGE).packed(request)
    assert one == other
    assert encode(unpacked(one, by_digest(parts))) == encode(request)


def test_what_has_no_wire_form_or_is_too_large_is_not_taken_and_does_not_count_as_given() -> None:
    packer = RequestPacker(100)
    with pytest.raises(NotEncodableError, match="a part of it has 2"):
        packer.packed(LlmRequest(contents=[text(1), Content.of_text("x" * 200)]))
    with pytest.raises(NotEncodableError):
        packer.packed(LlmRequest(contents=[text(1)], config={"odd": 2**70}))
    packed, parts = packer.packed(LlmRequest(contents=[text(1)]))
    assert unpacked(packed, by_digest(parts)).contents == [text(1)]


@pytest.mark.parametrize("name", ["http_options", "httpOptions"])
def test_headers_which_may_be_keys_are_recorded_by_their_names_only(name: str) -> None:
    options = {"headers": {"Authorization": "Bearer 123"}, "timeout": 5}
    request = LlmRequest(contents=[text(1)], config={"temperature": 1, name: options})
    packed, parts = RequestPacker(LARGE).packed(request)
    assert not any(b"Bearer" in part.raw for part in parts)
    made = unpacked(packed, by_digest(parts))
    assert made.config == {"temperature": 1, name: {"headers": {"Authorization": "(not recorded)"}, "timeout": 5}}
    assert request.config[name] == options, "the request itself is as it was"


def test_a_part_that_is_missing_is_told() -> None:
    packed, parts = RequestPacker(LARGE).packed(LlmRequest(contents=[text(number) for number in range(GROUP + 1)]))
    for part in parts:
        rest = {digest: raw for digest, raw in by_digest(parts).items() if digest != part.digest}
        with pytest.raises(MissingPartError):
            unpacked(packed, rest)


SECRET = "4111-1111"
EVERYWHERE = [
    Part(text=f"my card is {SECRET}"),
    Part(text=SECRET, thought=True, thought_signature=SECRET.encode()),
    Part(function_call=FunctionCall(id="c", name="pay", args={"card": SECRET, "more": [{"name": SECRET, "tries": 2}]})),
    Part(function_response=FunctionResponse(id="c", name="pay", response={"said": SECRET}, parts=[{"text": SECRET}])),
    Part(inline_data=Blob(data=SECRET.encode(), mime_type="image/png", display_name=SECRET)),
    Part(file_data=FileData(file_uri=f"gs://{SECRET}", mime_type="image/png")),
    Part(executable_code=ExecutableCode(code=f"print({SECRET!r})", language="PYTHON")),
    Part(code_execution_result=CodeExecutionResult(outcome="OK", output=SECRET)),
    Part(part_metadata={"said": SECRET}),
    Part(tool_call={"said": SECRET}),
]
REQUEST = LlmRequest(
    model="m",
    agent="a",
    contents=[Content(role="user", parts=EVERYWHERE)],
    tools=[FunctionDeclaration(name="pay", description=SECRET, parameters={"type": "object", "default": SECRET})],
    config={
        "system_instruction": f"the card is {SECRET}",
        "temperature": 0.5,
        "stop_sequences": [SECRET],
        "blob": SECRET.encode(),
    },
    output_schema={"title": SECRET},
)


def test_no_text_gets_past_the_mask() -> None:
    packed, parts = RequestPacker(10**6, lambda text: text.replace(SECRET, "****")).packed(REQUEST)
    assert SECRET.encode() not in b"".join([encode(packed), *(part.raw for part in parts)])
    made = unpacked(packed, {part.digest: part.raw for part in parts})
    assert made.system_instruction == "the card is ****"
    assert (made.config["temperature"], made.config["stop_sequences"], made.config["blob"]) == (0.5, ["****"], "9 bytes")
    assert made.tools == [FunctionDeclaration(name="pay", description="****", parameters={"type": "object", "default": "****"})]
    assert made.output_schema == {"title": "****"}
    [content] = made.contents
    assert content.parts[0].text == "my card is ****"
    assert content.parts[2].function_call == FunctionCall(
        id="c", name="pay", args={"card": "****", "more": [{"name": "****", "tries": 2}]}
    )
    assert content.parts[3].function_response == FunctionResponse(id="c", name="pay", response={"said": "****"})
    assert content.parts[4].inline_data == Blob(data=b"9 bytes", mime_type="image/png")


def test_the_request_itself_is_as_it_was() -> None:
    before = encode(REQUEST)
    RequestPacker(10**6, lambda text: "").packed(REQUEST)
    assert encode(REQUEST) == before


def test_a_content_is_masked_once_in_a_run() -> None:
    seen: list[str] = []
    packer = RequestPacker(10**6, lambda text: seen.append(text) or text)  # type: ignore[func-returns-value]
    contents = [Content.of_text("one"), Content.of_text("two")]
    packer.packed(LlmRequest(contents=contents))
    packer.packed(LlmRequest(contents=[*contents, Content.of_text("three")]))
    assert seen == ["one", "two", "three"]


def test_a_share_of_turns_is_chosen_the_same_way_each_time() -> None:
    turns = [f"e-{number}" for number in range(10_000)]
    chosen = [turn for turn in turns if Recording(0.1).covers(turn)]
    assert 850 < len(chosen) < 1150
    assert chosen == [turn for turn in turns if Recording(0.1).covers(turn)]
    assert set(chosen) <= {turn for turn in turns if Recording(0.2).covers(turn)}
    assert (any(Recording(0).covers(turn) for turn in turns), all(Recording(1).covers(turn) for turn in turns)) == (False, True)
