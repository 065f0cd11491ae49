"""What is masked has none of the texts of before, in whatever place of a request they were."""

from __future__ import annotations

from actors import Blob, Content, FunctionCall, FunctionResponse, Part
from actors.layers.recording.messages import Recording
from actors.layers.recording.rules import RequestPacker, unpacked
from actors.messages.codec import encode
from actors.messages.content import CodeExecutionResult, ExecutableCode, FileData
from actors.messages.llm import FunctionDeclaration, LlmRequest

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
