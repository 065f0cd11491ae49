"""Contexts, state, artifacts, requests and responses, as programs written for ADK use them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import pytest
from google.genai import types

from actors import (
    Agent,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventActions,
    FunctionCall,
    FunctionTool,
    GenerateContentConfig,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LoopAgent,
    ParallelAgent,
    Part,
    Plugin,
    ReadonlyContext,
    RunConfig,
    ToolContext,
)
from actors.errors import AgentFailedError, NotEncodableError, RequestError
from actors.testing import PatternModel, ScriptedModel
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, lossy_runtime
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


async def save_two(tool_context: ToolContext) -> list[Any]:
    """Save a part of each kind, and load them."""
    theirs = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    versions = [
        await tool_context.save_artifact(filename="logo.png", artifact=theirs),
        await tool_context.save_artifact(filename="logo.png", artifact=Part(text="no logo")),
    ]
    first = await tool_context.load_artifact(filename="logo.png", version=0)
    last = await tool_context.load_artifact(filename="logo.png")
    assert first is not None
    assert last is not None
    return [*versions, first.inline_data.data.hex() if first.inline_data else "", last.text, await tool_context.list_artifacts()]


async def save_nothing(tool_context: ToolContext) -> int:
    """Save what is no part."""
    return await tool_context.save_artifact(filename="logo.png", artifact="logo")


def test_artifacts_are_parts_of_google_genai_too(local: Deploy) -> None:
    model = ScriptedModel([{"parts": [{"call": "save_two"}, {"call": "save_nothing"}]}, "saved"])
    with local(Agent(name="root", model=model, tools=[save_two, save_nothing])) as rt:
        answered = run_turn(rt, "save")[1]
        saved, refused = (answer.response for answer in answered.function_responses())
        assert saved == {"result": [0, 1, b"\x89PNG".hex(), "no logo", ["logo.png"]]}
        assert "a str cannot be sent or stored: an artifact is a Part" in refused["error"]
        assert answered.actions.artifact_delta == {"logo.png": 1}


def change(tool_context: ToolContext) -> dict[str, Any]:
    """Change the state in all ways."""
    state = tool_context.state
    state.update({"seen": True, "count": state.get("count", 0) + 1})
    state.setdefault("cart", []).append("tea")
    state.setdefault("cart", []).append("milk")
    state["address"]["city"] = "Paris"
    state["count"] += 1
    assert state["unchanged"] == {"a": [1]}
    return state.to_dict()


def test_all_ways_to_write_state_count_as_changes(local: Deploy) -> None:
    before = {"cart": ["sugar"], "address": {"street": "Main"}, "unchanged": {"a": [1]}}
    model = ScriptedModel([{"call": "change"}, "ok", {"call": "change"}, "ok"])
    changed = {"seen": True, "count": 2, "cart": ["sugar", "tea", "milk"], "address": {"street": "Main", "city": "Paris"}}
    with local(Agent(name="root", model=model, tools=[change])) as rt:
        rt.sessions.create("ada", "s1", state=before)
        answered = run_turn(rt, "go")[1]
        assert next(answered.function_responses()).response == {**before, **changed}
        assert answered.actions.state_delta == changed
        assert stored_state(rt) == {**before, **changed}
        run_turn(rt, "go")
        assert stored_state(rt)["cart"] == ["sugar", "tea", "milk", "tea", "milk"]


def act(action: str, tool_context: ToolContext) -> dict[str, str]:
    """Set an action of the tool's event."""
    if action == "transfer":
        tool_context.actions.transfer_to_agent = "helper"
    elif action == "skip":
        tool_context.actions.skip_summarization = True
    else:
        tool_context.actions.escalate = True
    return {"id": tool_context.function_call_id}


def test_tools_set_the_actions_of_their_event(local: Deploy) -> None:
    helper = Agent(name="helper", model=PatternModel([], default="I help."))
    calls = [{"call": "act", "id": action, "args": {"action": action}} for action in ("skip", "transfer", "escalate")]
    asker = Agent(name="asker", model=ScriptedModel([*calls, "enough"]), tools=[act], sub_agents=[helper])
    with local(LoopAgent(name="root", sub_agents=[asker], max_iterations=5)) as rt:
        events = run_turn(rt, "go")
        answers = [(event.actions, answer) for event in events for answer in event.function_responses() if answer.name == "act"]
        assert [answer.response for _, answer in answers] == [{"id": answer.id} for _, answer in answers]
        assert [actions.skip_summarization for actions, _ in answers] == [True, None, None]
        # The helper answers in the second round, and the third is the last.
        assert [text for text in author_texts(events) if text[1]] == [("helper", "I help."), ("asker", "enough")]


class Looking:
    """Functions that look at what their contexts say of the session, and keep it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def look(self, context: ReadonlyContext) -> None:
        session = context.session
        ids = (session.app_name, session.user_id, session.id)
        assert ids == ("test", context.user_id, context.session_id)
        self.seen.append([event.text for event in session.events])
        assert (context.branch, context.run_config.max_llm_calls) == (None, 7)

    def before_agent(self, callback_context: CallbackContext) -> None:
        callback_context.state["looked"] = True
        self.look(callback_context)
        assert callback_context.session.state["looked"]
        with pytest.raises(TypeError, match=r"write context.state\['looked'\]"):
            callback_context.session.state["looked"] = False

    async def before_model(self, callback_context: CallbackContext, llm_request: Any) -> None:
        with pytest.raises(RequestError, match=r"await context.session.read_events\(\)"):
            assert callback_context.session.events
        self.seen.append(len(await callback_context.session.read_events()))
        assert len(callback_context.session.events) == self.seen[-1]

    def instruction(self, readonly_context: ReadonlyContext) -> str:
        self.look(readonly_context)
        return f"You know {readonly_context.session.state['looked']}."

    def tool(self, tool_context: ToolContext) -> str:
        """Look."""
        self.look(tool_context)
        return tool_context.function_call_id


class LookingPlugin(Plugin):
    """Looks at the session around a turn."""

    name = "looking"

    def __init__(self, looking: Looking) -> None:
        self._looking = looking

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> None:
        self._looking.look(context)

    def after_run_callback(self, context: CallbackContext) -> None:
        self._looking.look(context)


def test_contexts_show_the_session_with_its_events_when_they_are_looked_at(local: Deploy) -> None:
    looking = Looking()
    root = Agent(
        name="root",
        model=ScriptedModel([{"parts": ["I look", {"call": "tool"}]}, "done"]),
        tools=[looking.tool],
        instruction=looking.instruction,
        before_agent_callback=looking.before_agent,
        before_model_callback=looking.before_model,
    )
    with local(root, plugins=[LookingPlugin(looking)]) as rt:
        run_turn(rt, "hi", run_config=RunConfig(max_llm_calls=7))
    called = ["hi", "", "I look"]
    answered = [*called, ""]
    assert looking.seen == [[], ["hi"], ["hi", ""], 2, called, answered, 4, [*answered, "done"]]


class Reading(CustomAgent):
    """Reads its session."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        assert context.session.state["user:name"] == "Ada"
        events = await context.session.read_events()
        text = f"{context.session.id} {context.branch} {context.run_config.streaming} {[event.text for event in events]}"
        yield Event(content=Content.of_text(text, role="model"))


def test_a_custom_agent_is_shown_its_session_too(local: Deploy) -> None:
    with local(ParallelAgent(name="root", sub_agents=[Reading(name="reader")])) as rt:
        rt.sessions.create("ada", "s1", state={"user:name": "Ada"})
        said = run_turn(rt, "hi", run_config=RunConfig(streaming="sse"))[-1]
        assert said.text.startswith("s1 root.reader sse ['hi'")


class Colour(Enum):
    RED = 1


class Size(StrEnum):
    LARGE = "large"


class Point(NamedTuple):
    x: int


class Model(pydantic.BaseModel):
    x: int = 1


@dataclasses.dataclass
class Data:
    x: int = 1


REFUSED: dict[str, tuple[object, str]] = {
    "datetime": (datetime(2026, 1, 2, tzinfo=UTC), "a datetime .*state['k'] would come back as a text: store its isoformat()"),
    "date": ([1, date(2026, 1, 2)], "a date .*state['k'][1] would come back as a text"),
    "timedelta": (timedelta(1), "total_seconds()"),
    "set": ({"tags": {"a"}}, "a set .*state['k']['tags'] would come back as a list"),
    "decimal": (Decimal("1.1"), "a Decimal .*as one, by str()"),
    "enum": (Colour.RED, "a Colour .*.value"),
    "named tuple": (Point(1), "_asdict()"),
    "pydantic": ([Model()], 'model_dump(mode="json")'),
    "dataclass": (Data(), "dataclasses.asdict()"),
    "content": (Part(text="x"), "store texts, numbers, .* or save it as an artifact"),
    "function": (print, "store texts, numbers"),
    "key": ({"k": {1: "a"}}, "a int .*a key of state['k']['k'] would come back as a text: use texts as keys, not 1"),
}


@pytest.mark.parametrize(("value", "words"), REFUSED.values(), ids=REFUSED)
def test_a_value_that_would_come_back_as_another_one_is_refused_on_the_write(local: Deploy, value: Any, words: str) -> None:
    errors: list[NotEncodableError] = []

    def write(context: CallbackContext) -> None:
        for put in (context.state.__setitem__, context.state.setdefault, lambda key, value: context.state.update({key: value})):
            with pytest.raises(NotEncodableError) as raised:
                put("k", value)
            errors.append(raised.value)

    with local(Agent(name="root", model=PatternModel([], default="ok"), before_agent_callback=write)) as rt:
        run_turn(rt, "hi")
        with pytest.raises(NotEncodableError) as raised:
            rt.sessions.create("ada", "s2", state={"k": value})
        with pytest.raises(NotEncodableError):
            run_turn(rt, "hi", state_delta={"k": value})
        assert stored_state(rt) == {}
    pattern = words.replace("(", r"\(").replace(")", r"\)").replace("[", r"\[").replace("]", r"\]")
    for error in (*errors, raised.value):
        assert error.args == raised.value.args
    with pytest.raises(NotEncodableError, match=pattern):
        raise raised.value


def later(context: CallbackContext) -> None:
    context.state.setdefault("times", []).append(datetime(2026, 1, 2, tzinfo=UTC))


class Yielding(CustomAgent):
    """Writes a set into the state."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(actions=EventActions(state_delta={"tags": {"a"}}))


WRITERS: dict[str, tuple[Callable[[], Any], str]] = {
    "in place": (lambda: Agent(name="root", model=PatternModel([]), before_agent_callback=later), r"state\['times'\]\[0\]"),
    "yielded": (lambda: Yielding(name="root"), r"a set .*state\['tags'\]"),
}


@pytest.mark.parametrize(("root", "words"), WRITERS.values(), ids=WRITERS)
def test_what_is_put_inside_later_is_refused_when_its_event_is_stored(local: Deploy, root: Callable[[], Any], words: str) -> None:
    with local(root()) as rt:
        with pytest.raises(NotEncodableError, match=words):
            run_turn(rt, "hi")
        assert stored_state(rt) == {}


def test_other_values_come_back_as_they_are_and_a_tuple_as_a_list(local: Deploy) -> None:
    values: dict[str, Any] = {"a": [1, 2.5, None, True, {"b": []}], "b": b"raw", "c": Size.LARGE, "d": (1, (2,))}

    def write(context: CallbackContext) -> None:
        context.state.update(values)

    with local(Agent(name="root", model=PatternModel([], default="ok"), before_agent_callback=write)) as rt:
        assert author_texts(run_turn(rt, "hi"))[-1] == ("root", "ok")
        assert stored_state(rt) == {**values, "d": [1, [2]]}


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
