"""What a person sees of a value: one line, without what is at its default, and never a page."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import (
    Blob,
    Content,
    Event,
    EventActions,
    Failed,
    Finished,
    Flow,
    FunctionCall,
    FunctionTool,
    LlmAgent,
    LlmRequest,
    Part,
    Paused,
    Placement,
    RunConfig,
    Session,
    Supervision,
    Task,
    tool,
)
from actors.messages.protocol.runs import for_users
from actors.messages.shown import shown


@tool
def look_up(order: str) -> str:
    """Look up."""
    return order


def note(context: Any) -> None:
    """A callback."""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Part(text="hi"), "Part(text='hi')"),
        (Part(), "Part()"),
        (Part(inline_data=Blob(data=b"x" * 1_000)), "Part(inline_data=Blob(data=<1,000 bytes>))"),
        (Content.of_text("a" * 100), f"Content(role='user', parts=[Part(text='{'a' * 80}'… (100 characters))])"),
        (FunctionCall(name="f", args={"x": [1, "y"]}), "FunctionCall(name='f', args={'x': [1, 'y']})"),
        (Event(author="root", seq=3), "Event(seq=3, author='root')"),
        (EventActions(state_delta={}), "EventActions()"),
        (Finished(agent="root", llm_calls=3, state_seq=2, closed=True), "Finished(agent='root')"),
        (Paused(call_ids=("c",)), "Paused(call_ids=('c',))"),
        (Failed(error_code="KeyError", llm_calls=3), "Failed(error_code='KeyError')"),
        (RunConfig(timeout=3), "RunConfig(timeout=3)"),
        (LlmRequest(agent="a"), "LlmRequest(agent='a')"),
        (FunctionTool(note), "FunctionTool('note')"),
        (
            LlmAgent(name="a", tools=[look_up], before_agent_callback=[note], sub_agents=[LlmAgent(name="b")]),
            "LlmAgent(name='a', sub_agents=[LlmAgent('b')], before_agent_callback=[note], tools=[look_up])",
        ),
        (Placement(num_cpus=1), "Placement(num_cpus=1.0)"),
        (Supervision(strategy="skip"), "Supervision(strategy='skip')"),
        (Task("Look", name="t", result_type=int), "Task(objective='Look', name='t', result_type=int)"),
        (Flow([Task("Look", name="t")], agents=["a"]), "Flow(tasks=[Task('t')], agents=['a'])"),
    ],
)
def test_only_what_is_not_the_default_is_shown(value: object, text: str) -> None:
    assert repr(value) == text


def test_a_long_conversation_is_one_line() -> None:
    events = [Event(id=f"id-{number}", seq=number, content=Content.of_text("word " * 100)) for number in range(1, 1_001)]
    text = repr(Session(app_name="app", user_id="ada", id="s1", events=events))
    assert len(text) < 500
    assert ", … 998 more]" in text or ", … 999 more]" in text


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=300) | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner, max_size=30),
    max_leaves=200,
)


@given(values)
def test_whatever_it_holds_it_stays_short(value: Any) -> None:
    assert len(shown(value)) < 3_000
    assert "\n" not in shown(value)


def test_what_nests_deeper_than_python_can_go_is_shown() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert shown(value) == "[[[[[…]]]]]"


def test_what_users_get_as_an_outcome_holds_nothing_of_the_actors() -> None:
    assert for_users(Finished(agent="a", llm_calls=3, state_seq=4, closed=True, escalated=True)) == Finished(agent="a")
    assert for_users(Paused(agent="a", call_ids=("c",), llm_calls=1)) == Paused(agent="a", call_ids=("c",))


def test_what_is_stored_is_as_before() -> None:
    assert msgspec.json.encode(Finished(agent="a", llm_calls=1)) == b'{"type":"Finished","agent":"a","llm_calls":1}'
    assert msgspec.json.encode(Content.of_text("hi")) == b'{"role":"user","parts":[{"text":"hi"}]}'


def test_what_fields_a_value_has_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # msgspec evaluates the annotations of all fields each time.
    first = repr(Session(app_name="app", user_id="ada", id="s1"))
    monkeypatch.setattr(msgspec.structs, "fields", lambda kind: pytest.fail(f"{kind} once more"))
    assert repr(Session(app_name="app", user_id="ada", id="s1")) == first
