"""A request whose contents are converted when they are looked at does what one does that was converted as a whole."""

from __future__ import annotations

import copy
import pickle
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.models.llm_request import LlmRequest as AdkRequest
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from actors import Blob, Content, FunctionCall, FunctionDeclaration, FunctionResponse, LlmRequest, Part
from actors.messages.drafts import ContentDrafts
from runtime.integrations.adk.contents import genai_content, own_content
from runtime.integrations.adk.requests import RequestView
from tests.support.runtimes import Deploy, run_turn

PARTS = st.sampled_from(
    [
        Part(text="a"),
        Part(text="a thought", thought=True),
        Part(text="signed", thought_signature=b"s"),
        Part(text=""),
        Part(),
        Part(function_call=FunctionCall(id="1", name="f", args={"a": [1, {"b": None}]})),
        Part(function_response=FunctionResponse(id="1", name="f", response={"result": "x"})),
        Part(inline_data=Blob(data=b"\xff\x00", mime_type="image/png")),
    ]
)
CONTENTS = st.builds(Content, role=st.sampled_from(["user", "model", None]), parts=st.lists(PARTS, max_size=3))


def theirs(text: str = "added") -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def say_in_last(request: Any) -> None:
    if request.contents and request.contents[-1].parts:
        request.contents[-1].parts[0].text = "changed"


def say_in_all(request: Any) -> None:
    for content in request.contents:
        content.parts = [*(content.parts or []), types.Part(text="more")]


def replace(request: Any) -> None:
    request.contents = [theirs(), *request.contents[1:]]


def rotate(request: Any) -> None:
    if request.contents:
        request.contents.insert(0, request.contents.pop())


def double(request: Any) -> None:
    request.contents.extend(request.contents)


def configure(request: Any) -> None:
    request.config.temperature = 0.5
    request.config.system_instruction = "new"


CHANGES: list[Callable[[Any], Any]] = [
    lambda request: None,
    lambda request: len(request.contents),
    lambda request: request.contents[:2],
    lambda request: [content.role for content in request.contents],
    lambda request: request.contents.append(theirs()),
    lambda request: request.contents.insert(1, theirs()),
    lambda request: request.contents.clear(),
    lambda request: request.contents.reverse(),
    lambda request: request.contents.__delitem__(slice(0, -1)),
    lambda request: request.contents.__setitem__(slice(0, 1), [theirs(), theirs()]),
    lambda request: request.append_instructions(["be brief"]),
    say_in_last,
    say_in_all,
    replace,
    rotate,
    double,
    configure,
]

READS: list[Callable[[Any], Any]] = [
    lambda request: request,
    lambda request: request.contents,
    lambda request: repr(request),
    lambda request: request.model_dump(),
    lambda request: request.model_dump(mode="json", exclude_none=True),
    lambda request: request.model_dump_json(exclude_unset=True),
    lambda request: copy.copy(request).contents,
    lambda request: copy.deepcopy(request).model_dump(),
    lambda request: request.model_copy(deep=True).contents,
    lambda request: pickle.loads(pickle.dumps(request)).model_dump(),
    lambda request: AdkRequest(contents=request.contents, config=request.config),
    lambda request: dict(request)["contents"],
    lambda request: request.contents == list(request.contents),
]


def requests(contents: list[Content], config: dict[str, Any]) -> tuple[LlmRequest, RequestView, AdkRequest]:
    """A request, as its callbacks get it, and the one of ADK that was converted as a whole."""
    tools = [FunctionDeclaration(name="f", description="Do it.", parameters={"type": "object", "properties": {"a": {}}})]
    ours = LlmRequest(model="m", contents=ContentDrafts(contents), tools=tools, config=config)
    view = RequestView(ours)
    eager = RequestView(LlmRequest(model="m", tools=tools, config=config)).adk
    eager.contents = [content.to_genai() for content in contents]
    # Tools are equal to themselves only.
    eager.tools_dict = dict(view.adk.tools_dict)
    return ours, view, eager


def told(contents: Iterable[Content]) -> list[tuple[str | None, list[Part]]]:
    """Roles and parts; a content without parts may have them in a tuple or in a list."""
    return [(content.role, list(content.parts)) for content in contents]


CONFIGS: list[dict[str, Any]] = [
    {},
    {"system_instruction": "be kind", "temperature": 0.1},
    {"labels": {"a": "b"}, "tools": [{"google_search": {}}], "thinking_config": {"thinking_budget": 5}},
]


@given(st.lists(CONTENTS, max_size=4), st.sampled_from(CONFIGS), st.lists(st.sampled_from(CHANGES), max_size=4))
def test_any_callbacks_leave_the_same_in_both(contents: list[Content], config: Any, changes: list[Callable[[Any], Any]]) -> None:
    given = copy.deepcopy(contents)
    ours, view, eager = requests(contents, config)
    for change in changes:
        assert change(view.adk) == change(eager)
    view.carry_back()
    assert told(ours.contents) == told(own_content(content) for content in eager.contents)
    assert ours.system_instruction == (eager.config.system_instruction or "")
    assert [tool.name for tool in ours.tools] == ["f"]
    # What the session's log has stays as it is.
    assert contents == given


@given(st.lists(CONTENTS, min_size=1, max_size=3), st.sampled_from(READS), st.sampled_from(CHANGES))
def test_it_is_read_alike(contents: list[Content], read: Callable[[Any], Any], change: Callable[[Any], Any]) -> None:
    _, view, eager = requests(contents, {})
    assert _plain(read(view.adk)) == _plain(read(eager))
    _, view, eager = requests(contents, {})
    change(view.adk)
    change(eager)
    assert _plain(read(view.adk)) == _plain(read(eager))


def _plain(value: Any) -> Any:
    """A request as a dictionary of its fields; its class has another name."""
    if isinstance(value, AdkRequest):
        return {name: getattr(value, name) for name in AdkRequest.model_fields}
    return value.replace("RunRequest(", "LlmRequest(") if isinstance(value, str) else value


@given(CONTENTS)
def test_a_content_is_converted_as_google_genai_reads_it(content: Content) -> None:
    quick, whole = genai_content(content), content.to_genai()
    assert quick == whole
    assert quick.model_dump(exclude_unset=True) == whole.model_dump(exclude_unset=True)


def test_only_what_was_looked_at_is_converted_and_made_a_message_again() -> None:
    contents = [Content.of_text(str(number)) for number in range(5)]
    ours, view, _ = requests(contents, {})
    assert view.adk.contents[-1].parts[0].text == "4"
    view.adk.contents.append(theirs())
    assert [type(each) for each in view.adk.contents.raw()] == [Content] * 4 + [types.Content] * 2
    view.carry_back()
    settled = ours.contents.settled()  # type: ignore[attr-defined]
    assert [each is was for each, was in zip(settled, contents, strict=False)] == [True] * 4 + [False]
    assert settled == [*contents, Content.of_text("added")]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_configuration_that_nobody_changes_is_not_carried_back(config: dict[str, Any]) -> None:
    ours, view, _ = requests([], config)
    before = ours.config
    view.carry_back()
    assert ours.config is before


def test_what_is_changed_inside_of_a_configuration_is_carried_back() -> None:
    ours, view, _ = requests([], CONFIGS[2])
    view.adk.config.labels["more"] = "c"
    view.adk.config.thinking_config.include_thoughts = True
    view.carry_back()
    assert ours.config["labels"] == {"a": "b", "more": "c"}
    assert ours.config["thinking_config"] == {"thinking_budget": 5, "include_thoughts": True}
    assert ours.config["tools"] == [{"google_search": {}}]


class Answer(BaseModel):
    euros: int
    schema_seen: str = ""


class Other(BaseModel):
    pounds: int


class Lookup(BaseTool):  # type: ignore[misc]
    """Has the model's service look things up, and is declared to no model, unless it says so."""

    def __init__(self, name: str, *, is_declared: bool) -> None:
        super().__init__(name=name, description="Looks up.")
        self._is_declared = is_declared

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def process_llm_request(self, *, tool_context: Any, llm_request: Any) -> None:
        if self._is_declared:
            await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        else:
            llm_request.config.tools = [*(llm_request.config.tools or []), types.Tool(url_context=types.UrlContext())]


class ListsTools(BaseLlm):  # type: ignore[misc]
    """Says what it may call."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        names = [each.name for tool in llm_request.config.tools for each in tool.function_declarations or ()]
        services = sum(tool.url_context is not None for tool in llm_request.config.tools)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"{names} {services}")]))


def test_a_tool_that_only_changes_requests_is_not_declared(local: Deploy) -> None:
    def add() -> None: ...

    tools = [Lookup("first", is_declared=True), Lookup("second", is_declared=False), add]
    with local(LlmAgent(name="root", model=ListsTools(model="lists"), tools=tools)) as rt:
        assert run_turn(rt, "hi")[-1].text == "['first', 'add'] 1"


class ReadsSchema(BaseLlm):  # type: ignore[misc]
    """A model that is told the schema as ADK's LiteLlm and Claude are."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        config = llm_request.config
        schema = getattr(config.response_schema, "__name__", config.response_schema)
        said = f'{{"euros": 1, "schema_seen": "{schema} {config.response_json_schema} {config.response_mime_type}"}}'
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=said)]))


def test_models_and_callbacks_of_adk_are_told_the_type_of_the_answer(local: Deploy) -> None:
    seen: list[Any] = []

    def look(callback_context: Any, llm_request: Any) -> None:
        seen.append(llm_request.config.response_schema)

    root = LlmAgent(name="root", model=ReadsSchema(model="reads"), output_schema=Answer, before_model_callback=look)
    with local(root) as rt:
        assert run_turn(rt, "hi")[-1].text == '{"euros": 1, "schema_seen": "Answer None application/json"}'
    assert seen == [Answer]


def schema_request() -> LlmRequest:
    return LlmRequest(model="m", output_schema=Answer.model_json_schema())


def test_a_callback_may_set_another_type_of_the_answer_or_none() -> None:
    for new, expected in [(Other, Other.model_json_schema()), ({"type": "object"}, {"type": "object"}), (None, None)]:
        ours = schema_request()
        view = RequestView(ours, schema=Answer)
        view.adk.config.response_schema = new
        view.carry_back()
        assert ours.output_schema == expected
        assert "response_schema" not in ours.config
    ours = schema_request()
    view = RequestView(ours, schema=Answer)
    view.adk.config.temperature = 0.5
    view.carry_back()
    assert (ours.output_schema, ours.config) == (Answer.model_json_schema(), {"temperature": 0.5, "system_instruction": ""})


def test_a_model_that_knows_no_type_is_told_its_json_schema() -> None:
    assert RequestView(schema_request()).adk.config.response_schema == Answer.model_json_schema()
    # Of an agent above, whose model this is.
    assert RequestView(schema_request(), schema=Other).adk.config.response_schema == Answer.model_json_schema()
