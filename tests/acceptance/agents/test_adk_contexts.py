"""Contexts, state and artifacts as programs written for ADK use them."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
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
    InvocationContext,
    LoopAgent,
    ParallelAgent,
    Part,
    Plugin,
    ReadonlyContext,
    RunConfig,
    ToolContext,
)
from actors.errors import NotEncodableError, RequestError
from actors.testing import PatternModel, ScriptedModel
from tests.support.runtimes import Deploy, author_texts, run_turn, stored_state


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
