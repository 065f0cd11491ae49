"""State: its scopes, which agents and turns see it, and `output_key`."""

from __future__ import annotations

import pytest

from actors import LlmAgent, Part
from actors.errors import NotEncodableError, OutputSchemaError, TemplateError
from actors.testing import ScriptedModel
from tests.support.agents.conversation_agents import Invoice
from tests.support.agents.conversation_callbacks import instruction_from_state
from tests.support.agents.conversation_tools import put
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


def puts(key: str, value: object) -> dict[str, object]:
    return {"call": "put", "args": {"key": key, "value": value}}


def test_each_scope_is_seen_where_it_belongs(deploy: Deploy) -> None:
    calls = {"parts": [puts("k", "session"), puts("user:k", "user"), puts("app:k", "app")]}
    model = ScriptedModel([calls, "ok", "two", "three"])
    with deploy(LlmAgent(name="root", model=model, tools=[put], instruction="<{k?}|{user:k?}|{app:k?}>")) as rt:
        run_turn(rt, "put")
        run_turn(rt, "another session", session_id="s2")
        run_turn(rt, "another user", user_id="bob")
        assert [request.system_instruction.partition(">")[0] for request in model.requests] == [
            "<||",
            "<session|user|app",
            "<|user|app",
            "<||app",
        ]
        assert stored_state(rt) == {"k": "session", "user:k": "user", "app:k": "app"}
        assert stored_state(rt, "s2") == {"user:k": "user", "app:k": "app"}
        assert stored_state(rt, user_id="bob") == {"app:k": "app"}


def test_temp_state_is_for_one_turn_and_all_its_agents_and_never_stored(deploy: Deploy) -> None:
    model = ScriptedModel([puts("temp:t", "by a tool"), {"transfer": "sub"}, "seen", "gone"])
    seen = "<{temp:t?}|{temp:m?}>"
    sub = LlmAgent(name="sub", model=model, instruction=seen)
    with deploy(LlmAgent(name="root", model=model, instruction=seen, tools=[put], sub_agents=[sub])) as rt:
        run_turn(rt, "put", state_delta={"temp:m": "by the message", "kept": 1})
        run_turn(rt, "next")
        assert [request.system_instruction.partition(">")[0] for request in model.requests] == [
            "<|by the message",
            "<by a tool|by the message",
            "<by a tool|by the message",
            "<|",
        ]
        assert all(not key.startswith("temp:") for event in stored(rt) for key in event.actions.state_delta)
        assert stored_state(rt) == {"kept": 1}


def test_templates_see_what_came_with_the_message_and_an_unknown_name_fails_the_turn(deploy: Deploy) -> None:
    model = ScriptedModel(["ok", "better"])
    with deploy(LlmAgent(name="root", model=model, instruction="I know {x}, {artifact.notes.txt?}.")) as rt:
        rt.sessions.create("ada", "s1")
        with pytest.raises(TemplateError, match=r"'root'.*'x'"):
            run_turn(rt, "hi")
        assert (stored(rt)[-1].author, stored(rt)[-1].error_code) == ("root", "TemplateError")
        run_turn(rt, "hi", state_delta={"x": "everything"})
        rt.artifacts.save("ada", "s1", "notes.txt", Part(text="and more"))
        run_turn(rt, "hi", state_delta={"x": None})
        told_of = [request.system_instruction.partition(".")[0] for request in model.requests]
        assert told_of == ["I know everything, ", "I know , and more"]


def test_an_instruction_can_be_a_function_and_is_not_filled_in_then(deploy: Deploy) -> None:
    model = ScriptedModel(["ok"])
    sub = LlmAgent(name="sub", model=model)
    with deploy(LlmAgent(name="root", model=model, instruction=instruction_from_state, sub_agents=[sub])) as rt:
        run_turn(rt, "hi", state_delta={"mood": "calmly"})
    assert model.requests[0].system_instruction.startswith("root serves ada: {seen?} calmly\n\n")


def test_an_answer_is_kept_as_text_or_as_what_its_schema_makes_of_it(deploy: Deploy) -> None:
    good, bad = '{"order": 42, "paid": true}', '{"order": "many"}'
    model = ScriptedModel([{"parts": [{"thought": "hm"}, good]}, bad, "plain"])
    root = LlmAgent(name="root", model=model, output_key="invoice", output_schema=Invoice)
    with deploy(root) as rt:
        assert author_texts(run_turn(rt, "invoice")) == [("root", good)]
        assert stored_state(rt) == {"invoice": {"order": 42, "paid": True}}
        assert model.requests[0].output_schema == Invoice.model_json_schema()
        with pytest.raises(OutputSchemaError, match=r"'root'.*paid"):
            run_turn(rt, "invoice")
        assert [event.error_code for event in stored(rt)[-1:]] == ["OutputSchemaError"]
        assert stored_state(rt) == {"invoice": {"order": 42, "paid": True}}


def test_state_that_has_no_wire_form_is_refused_and_nothing_is_stored(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=ScriptedModel(["ok"]))) as rt:
        with pytest.raises(NotEncodableError):
            rt.sessions.create("ada", "s1", {"bad": object()})
        with pytest.raises(NotEncodableError):
            run_turn(rt, "hi", state_delta={"bad": object()})
        assert rt.sessions.get("ada", "s1") is None
        assert author_texts(run_turn(rt, "hi")) == [("root", "ok")]
