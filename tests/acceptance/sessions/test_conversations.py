"""Conversations of several turns: which agent answers, what is kept in log and state, and drivers that come and go."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from actors import Content, LlmAgent, Part, RunConfig, tool
from actors.errors import (
    InvalidMessageError,
    InvocationNotFoundError,
    LlmCallsLimitExceededError,
    NotEncodableError,
    OutputSchemaError,
    RequestError,
    SessionExistsError,
    SessionNotFoundError,
    TemplateError,
    TransferLimitExceededError,
)
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.agents.conversation_agents import Invoice, support_tree, support_tree_by_pattern
from tests.support.agents.conversation_callbacks import instruction_from_state
from tests.support.agents.conversation_tools import put
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


def state(rt: Runtime, session_id: str = "s1") -> dict[str, object]:
    session = rt.sessions.get("ada", session_id, num_recent_events=0)
    assert session is not None
    return session.state


def test_an_agent_that_was_handed_the_conversation_keeps_it_until_it_hands_it_on(deploy: Deploy) -> None:
    model = ScriptedModel([{"transfer": "billing"}, "what is it?", "I see", {"transfer": "concierge"}, "me again", "still me"])
    with deploy(support_tree(model)) as rt:
        assert [event.author for event in run_turn(rt, "a bill")] == ["concierge", "concierge", "billing"]
        assert author_texts(run_turn(rt, "it is late")) == [("billing", "I see")]
        assert author_texts(run_turn(rt, "I want to leave"))[-1] == ("concierge", "me again")
        assert author_texts(run_turn(rt, "hello")) == [("concierge", "still me")]
        assert [event.seq for event in stored(rt)] == list(range(1, 13))
        assert model.requests[2].agent == "billing"


def test_another_runtime_goes_on_where_the_first_one_stopped(deploy: Deploy) -> None:
    first = ScriptedModel([{"transfer": "billing"}, {"call": "look_up", "args": {"order": "42"}}, "it is late"])
    with deploy(support_tree(first)) as rt:
        run_turn(rt, "order 42", state_delta={"user:name": "Ada"})
        before = stored(rt)
    second = ScriptedModel(["tomorrow"])
    with deploy(support_tree(second)) as rt:
        assert stored(rt) == before
        assert author_texts(run_turn(rt, "when?")) == [("billing", "tomorrow")]
        assert state(rt) == {"seen": 1, "said": "tomorrow", "user:name": "Ada"}
    request = second.requests[0]
    assert request.system_instruction.startswith("Seen so far: 1.")
    assert [content.role for content in request.contents] == ["user", "user", "user", "model", "user", "model", "user"]
    assert request.contents[0].text == "order 42"
    assert [call.name for content in request.contents for call in content.function_calls()] == ["look_up"]
    assert [content.text for content in request.contents[-2:]] == ["it is late", "when?"]


@pytest.mark.full
def test_a_driver_in_another_process_is_followed_by_this_one(local_ray: str, tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    other = subprocess.run(
        [sys.executable, "-m", "tests.support.programs.one_turn_driver", address, str(tmp_path), "my bill for order 42"],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        timeout=100,
        check=True,
    )
    said = [tuple(each) for each in json.loads(other.stdout.splitlines()[-1])]
    assert said[-1] == ("billing", "it is late")
    with Deploy("ray", tmp_path)(support_tree_by_pattern()) as rt:
        assert author_texts(stored(rt))[1:] == said
        assert state(rt) == {"seen": 1, "said": "it is late"}
        assert author_texts(run_turn(rt, "thanks")) == [("billing", "still here")]


def test_the_same_invocation_id_is_the_same_turn_and_is_told_from_its_first_event(deploy: Deploy) -> None:
    model = ScriptedModel([{"transfer": "billing"}, "here"])
    with deploy(support_tree(model)) as rt:
        first = rt.run(user_id="ada", session_id="s1", message="hi", invocation_id="mine")
        again = rt.run(user_id="ada", session_id="s1", message="hi", invocation_id="mine")
        events = list(first)
        assert list(again) == events
        assert list(rt.run(user_id="ada", session_id="s1", message="hi", invocation_id="mine")) == events
        assert first.invocation_id == again.invocation_id == "mine"
        assert len(stored(rt)) == 4
        assert {event.invocation_id for event in stored(rt)} == {"mine"}
    with deploy(support_tree(ScriptedModel([]))) as rt:
        assert list(rt.run(user_id="ada", session_id="s1", message="hi", invocation_id="mine")) == events


def test_a_turn_can_be_told_again_from_any_place(deploy: Deploy) -> None:
    with deploy(support_tree_by_pattern()) as rt:
        events = run_turn(rt, "a bill", invocation_id="first")
        run_turn(rt, "and now?")
        assert list(rt.attach(user_id="ada", session_id="s1", invocation_id="first")) == events
        behind = rt.attach(user_id="ada", session_id="s1", invocation_id="first", after_seq=events[0].seq)
        assert list(behind) == events[1:]
        with pytest.raises(InvocationNotFoundError, match="nobody"):
            rt.attach(user_id="ada", session_id="s1", invocation_id="nobody").result()


def test_limits_hold_for_all_agents_of_a_turn_together_and_the_next_turn_works(deploy: Deploy) -> None:
    ping = PatternModel([("ping", {"transfer": "billing"})], default="concierge rests")
    pong = PatternModel([("ping", {"transfer": "concierge"})], default="billing rests")
    with deploy(support_tree(ping, pong)) as rt:
        with pytest.raises(TransferLimitExceededError, match=r"'billing'.*'concierge'.*3"):
            run_turn(rt, "ping", run_config=RunConfig(max_transfers=3))
        last = stored(rt)[-1]
        assert (last.author, last.error_code, last.content) == ("billing", "TransferLimitExceededError", None)
        assert sum(event.actions.transfer_to_agent is not None for event in stored(rt)) == 4
        with pytest.raises(LlmCallsLimitExceededError, match="5"):
            run_turn(rt, "ping", session_id="s2", run_config=RunConfig(max_llm_calls=5))
        last = stored(rt, "s2")[-1]
        assert (last.author, last.error_code) == ("billing", "LlmCallsLimitExceededError")
        assert author_texts(run_turn(rt, "rest", session_id="s2")) == [("billing", "billing rests")]
        with pytest.raises(TransferLimitExceededError):
            run_turn(rt, "ping", session_id="s3", run_config=RunConfig(max_transfers=0))


def test_a_rewind_restores_state_and_history_and_deletes_nothing(deploy: Deploy) -> None:
    def puts(key: str, value: str) -> dict[str, object]:
        return {"call": "put", "args": {"key": key, "value": value}}

    model = ScriptedModel([puts("k", "one"), "r1", puts("k", "two"), puts("new", "n"), "r2", "r3", "r4"])
    with deploy(LlmAgent(name="root", model=model, tools=[put])) as rt:
        run_turn(rt, "q1", invocation_id="first")
        before = stored(rt)
        run_turn(rt, "q2", invocation_id="second")
        assert state(rt) == {"k": "two", "new": "n"}
        rt.sessions.rewind("ada", "s1", "second")
        assert {key: value for key, value in state(rt).items() if value is not None} == {"k": "one"}
        assert "new" not in state(rt)
        assert stored(rt)[:-1] == before
        assert stored(rt)[-1].actions.rewind_before_invocation_id == "second"
        assert author_texts(run_turn(rt, "q3")) == [("root", "r3")]
        assert [content.text for content in model.requests[-1].contents if content.text] == ["q1", "r1", "q3"]
        with pytest.raises(InvocationNotFoundError, match="second"):
            rt.sessions.rewind("ada", "s1", "second")
        assert author_texts(run_turn(rt, "q2 again", invocation_id="second")) == [("root", "r4")]
    with deploy(LlmAgent(name="root", model=model, tools=[put])) as rt:
        assert author_texts(stored(rt))[-1] == ("root", "r4")
        assert state(rt) == {"k": "one"}


def test_sessions_are_created_read_listed_and_deleted(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=PatternModel([], default="hello"))) as rt:
        made = rt.sessions.create("ada", "s1", {"k": 1, "user:u": 2, "app:a": 3, "temp:t": 4})
        assert (made.id, made.user_id, made.app_name, made.events) == ("s1", "ada", "test", [])
        assert made.state == {"k": 1, "user:u": 2, "app:a": 3}
        with pytest.raises(SessionExistsError, match="s1"):
            rt.sessions.create("ada", "s1")
        run_turn(rt, "one")
        run_turn(rt, "two")
        assert [event.text for event in stored(rt)] == ["one", "hello", "two", "hello"]
        newest = rt.sessions.get("ada", "s1", num_recent_events=3)
        assert newest is not None
        assert [event.text for event in newest.events] == ["hello", "two", "hello"]
        assert rt.sessions.get("ada", "s1", num_recent_events=0).events == []  # type: ignore[union-attr]
        since = rt.sessions.get("ada", "s1", after_timestamp=stored(rt)[2].timestamp)
        assert since is not None
        assert [event.text for event in since.events] == ["two", "hello"]
        assert rt.sessions.get("ada", "nobody") is None
        generated = rt.sessions.create("ada")
        rt.sessions.create("bob", "s1")
        assert {session.id for session in rt.sessions.list("ada")} == {"s1", generated.id}
        assert len(rt.sessions.list()) == 3
        first = rt.sessions.list(limit=2)
        assert [*first, *rt.sessions.list(limit=2, before=first[-1])] == rt.sessions.list()
        assert rt.sessions.list(before=rt.sessions.list()[-1]) == []
        with pytest.raises(RequestError, match="before must be a Session of an earlier list, not str"):
            rt.sessions.list(before="s1")  # type: ignore[arg-type]
        rt.sessions.delete("ada", "s1")
        rt.sessions.delete("ada", "s1")
        assert rt.sessions.get("ada", "s1") is None
        with pytest.raises(SessionNotFoundError):
            rt.sessions.rewind("ada", "s1", "any")
        assert author_texts(run_turn(rt, "anew")) == [("root", "hello")]
        assert state(rt) == {"user:u": 2, "app:a": 3}


def test_a_streamed_answer_is_told_in_pieces_and_stored_once(deploy: Deploy) -> None:
    model = ScriptedModel([{"stream": ["Hel", "lo"]}, {"stream": ["not ", "streamed"]}])
    with deploy(LlmAgent(name="root", model=model, output_key="said")) as rt:
        events = run_turn(rt, "hi", run_config=RunConfig(streaming="sse"))
        assert [(event.text, bool(event.partial)) for event in events] == [("Hel", True), ("lo", True), ("Hello", False)]
        assert [event.text for event in stored(rt)] == ["hi", "Hello"]
        assert state(rt) == {"said": "Hello"}
        assert [event.text for event in run_turn(rt, "hi")] == ["not streamed"]


def test_a_message_is_a_text_a_content_or_that_of_google_genai_and_stays_as_it_was(deploy: Deploy) -> None:
    from google.genai import types

    with deploy(LlmAgent(name="root", model=PatternModel([], default="ok"))) as rt:
        ours = Content(role="model", parts=[Part(text="two"), Part(text="parts")])
        theirs = types.Content(role="model", parts=[types.Part(text="theirs")])
        for message in ("text", ours, theirs):
            run_turn(rt, message, run_config=RunConfig(custom_metadata={"from": "test"}))
        sent = [event for event in stored(rt) if event.author == "user"]
        assert [event.content.role for event in sent if event.content] == ["user"] * 3
        assert [event.text for event in sent] == ["text", "twoparts", "theirs"]
        assert [event.custom_metadata for event in sent] == [{"from": "test"}] * 3
        assert (ours.role, theirs.role) == ("model", "model")


async def test_everything_works_on_an_event_loop_too(deploy: Deploy) -> None:
    model = ScriptedModel(["one", "two", "three"])
    async with deploy(LlmAgent(name="root", model=model)) as rt:
        made = await rt.aio.sessions.create("ada", "s1", {"k": 1})
        assert made.state == {"k": 1}
        assert [event.text async for event in rt.run(user_id="ada", session_id="s1", message="hi")] == ["one"]
        result = await rt.run(user_id="ada", session_id="s1", message="hi")
        assert (result.text, result.agent) == ("two", "root")
        result = await rt.run(user_id="ada", session_id="s1", message="hi").aio.result()
        assert result.text == "three"
        again = rt.attach(user_id="ada", session_id="s1", invocation_id=result.invocation_id)
        assert [event.text async for event in again] == ["three"]
        assert await rt.aio.artifacts.save("ada", "s1", "a.txt", Part(text="A")) == 0
        assert (await rt.aio.statistics()).runner.counts["turns"] == 3
        session = await rt.aio.sessions.get("ada", "s1")
        assert session is not None
        assert [event.text for event in session.events] == ["hi", "one", "hi", "two", "hi", "three"]
        await rt.aio.sessions.rewind("ada", "s1", result.invocation_id)
        assert [session.id for session in await rt.aio.sessions.list("ada")] == ["s1"]
        await rt.aio.sessions.delete("ada", "s1")
        assert await rt.aio.sessions.get("ada", "s1") is None


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


@tool(require_confirmation=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_a_conversation_with_a_web_client(tmp_path: Path) -> None:
    model = PatternModel([("buy", {"call": "pay", "args": {"amount": 7}}), ("tool:", "Thanks.")], default="hello")
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=model, tools=[pay])) as rt:
        body = '{"role": "user", "parts": [{"text": "buy"}, {"inlineData": {"data": "aGk=", "mimeType": "text/plain"}}]}'
        events = run_turn(rt, json.loads(body))
        (call_id,) = events[-1].long_running_tool_ids
        (asked,) = [call for call in events[-1].function_calls() if call.id == call_id]
        response = {"id": call_id, "name": asked.name, "response": {"confirmed": True}}
        events = run_turn(rt, {"parts": [{"functionResponse": response}]})
        assert events[-1].text == "Thanks."
        content = stored(rt)[0].content
        assert content is not None
        assert content.to_dict() == json.loads(body)
        with pytest.raises(InvalidMessageError, match=r"message.parts\[0\] has no field 'txt'. Did you mean 'text'"):
            rt.run(user_id="ada", session_id="s1", message={"parts": [{"txt": "hi"}]})
