"""What models are asked: the context of one turn, and records of requests, where they are wanted."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from actors import (
    START,
    AgentTool,
    BaseAgent,
    CallbackContext,
    Content,
    Graph,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    tool,
)
from actors.errors import (
    AgentFailedError,
    DefinitionError,
    InvocationNotFoundError,
    ModelServiceError,
    SessionNotFoundError,
    StoreError,
)
from actors.messages.codec import encode
from actors.messages.content import FunctionCall, FunctionResponse, Part
from actors.testing import PatternModel, ScriptedModel
from runtime import RecordedCall
from runtime.driver.runtime import Runtime
from runtime.models.fallback import FallbackModel
from runtime.settings import Settings
from tests.support.fixtures.session_fixture import FailingStore
from tests.support.runtimes import Deploy, run_turn, stored

ON = Settings(record_requests="on")
SECRET = "4111-1111-1111"


@tool
def look_up(order: str) -> dict[str, str]:
    """Look up an order."""
    return {"order": order, "card": SECRET}


def recorded(rt: Runtime, session: str = "s1", user: str = "ada") -> list[RecordedCall]:
    """The model calls of all turns of a session, in the order in which they began."""
    turns = [turn.invocation_id for turn in rt.turns.list(user, session)]
    found = [call for turn in turns for call in rt.turns.requests(user, session, turn)]
    return sorted(found, key=lambda call: call.begun_s)


def asked(calls: list[RecordedCall]) -> list[bytes]:
    return [encode(call.request) for call in calls]


def desk(model: Any) -> BaseAgent:
    """An agent with a tool, an agent as a tool, and one to which it transfers."""
    expert = LlmAgent(name="expert", description="Knows.", instruction="Know {user:name?}.")
    billing = LlmAgent(name="billing", description="Bills.", instruction="Bill.", tools=[look_up])
    return LlmAgent(
        name="root",
        model=model,
        global_instruction="Be kind.",
        instruction="Greet {user:name?}.",
        tools=[look_up, AgentTool(expert)],
        sub_agents=[billing],
    )


def test_what_is_recorded_is_what_the_model_got_byte_for_byte(deploy: Deploy) -> None:
    model = ScriptedModel(
        [
            *({"call": "look_up", "args": {"order": "1"}}, "late"),
            *({"call": "expert", "args": {"request": "why"}}, "because", "it says because"),
            *({"transfer": "billing"}, {"call": "look_up", "args": {"order": "2"}}, "yours"),
            {"stream": ["a", "b", "c"]},
        ]
    )
    with deploy(desk(model), settings=ON) as rt:
        for message in ("where is it", "why", "the bill"):
            run_turn(rt, message, state_delta={"user:name": "Ada"})
        run_turn(rt, "again", run_config=RunConfig(streaming="sse"))
        calls = recorded(rt)
        assert asked(calls) == [encode(request) for request in model.requests]
        assert [call.agent for call in calls] == ["root"] * 3 + ["expert"] + ["root"] * 2 + ["billing"] * 3
        log = {event.id: event for event in stored(rt)}
        # Each stands beside its answer.
        assert [log[call.event_id].seq for call in calls] == [call.seq for call in calls]
        assert [log[call.event_id].author.strip("@") for call in calls] == [call.agent for call in calls]
        assert [call.streamed for call in calls] == [False] * 8 + [True]
        assert all(call.model == "ScriptedModel" and len(call.attempts) == 1 and not call.error for call in calls)
        assert all(call.begun_s <= call.ended_s and call.duration_s < 60 for call in calls)


def stamp(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """Change the request in all ways."""
    llm_request.append_instructions(["Said by a callback."])
    llm_request.config.temperature = 0.3
    llm_request.contents.append(Content.of_text("one more"))
    llm_request.append_tools([look_up])


def test_what_a_callback_has_made_of_a_request_is_recorded(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "look_up", "args": {"order": "1"}}, "done"])
    with deploy(LlmAgent(name="root", model=model, before_model_callback=stamp), settings=ON) as rt:
        run_turn(rt, "hi")
        calls = recorded(rt)
        assert asked(calls) == [encode(request) for request in model.requests]
        request = calls[0].request
        assert request is not None
        assert (request.config["temperature"], request.tools[0].name) == (0.3, "look_up")


def say_sorry(callback_context: CallbackContext, llm_request: LlmRequest, error: Exception) -> LlmResponse:
    return LlmResponse(content=Content.of_text("sorry", role="model"))


def test_a_call_that_fails_is_recorded_with_its_failure_and_with_what_came_instead(deploy: Deploy) -> None:
    model = ScriptedModel([ValueError("no such key"), "never"])
    with deploy(LlmAgent(name="root", model=model), settings=ON) as rt:
        with pytest.raises(AgentFailedError):
            run_turn(rt, "hi")
        [call] = recorded(rt)
        assert asked([call]) == [encode(model.requests[0])]
        assert (call.error, call.attempts[0].error, call.usage) == ("ValueError: no such key",) * 2 + (None,)
        assert stored(rt)[call.seq - 1].error_code == "ValueError"
    helped = LlmAgent(name="root", model=ScriptedModel([ValueError("again")]), on_model_error_callback=say_sorry)
    with deploy(helped, settings=ON) as rt:
        assert [event.text for event in run_turn(rt, "hi", "s2")] == ["sorry"]
        [call] = recorded(rt, "s2")
        assert (call.error, call.seq) == ("ValueError: again", 2)


def test_a_call_without_an_answer_is_recorded_too(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel([None, None])), settings=ON) as rt:
        [event] = run_turn(rt, "hi")
        calls = recorded(rt)
        assert [(call.agent, call.request is not None) for call in calls] == [("root", True)] * 2
        assert [call.seq for call in calls] == [event.seq] * 2


class Busy(PatternModel):
    """Is busy as often as it is told."""

    def __init__(self, name: str, times: int) -> None:
        super().__init__([], default="at last")
        self.name, self.times = name, times

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.times -= 1
        if self.times >= 0:
            raise ModelServiceError(self.name, 503, "busy")
        async for response in super().generate(request, stream=stream):
            yield response


def test_each_attempt_is_told_of_a_call_that_goes_on_to_another_model(local: Deploy) -> None:
    model = FallbackModel([Busy("first", 9), Busy("second", 0)])
    with local(LlmAgent(name="root", model=model), settings=ON) as rt:
        run_turn(rt, "hi")
        [call] = recorded(rt)
        assert [(attempt.model, attempt.error.partition(":")[0]) for attempt in call.attempts] == [
            ("first", "ModelServiceError"),
            ("second", ""),
        ]
        assert (call.model, call.error) == ("second", "")


def test_each_attempt_is_told_of_a_call_that_the_limiter_repeats(local: Deploy) -> None:
    limits = {"slow": {"max_concurrency": 1}}
    settings = Settings(record_requests=1.0, model_limits=limits)
    with local(LlmAgent(name="root", model=Busy("slow", 1)), settings=settings) as rt:
        run_turn(rt, "hi")
        [call] = recorded(rt)
        assert [attempt.model for attempt in call.attempts] == ["slow"] * 2
        assert [bool(attempt.error) for attempt in call.attempts] == [True, False]


def saying(name: str) -> LlmAgent:
    return LlmAgent(name=name, instruction=f"You are {name}.", model=PatternModel([], default=f"{name} speaks"))


@pytest.mark.parametrize(
    "tree",
    [
        lambda: SequentialAgent(name="all", sub_agents=[saying("a"), saying("b")]),
        lambda: ParallelAgent(name="all", sub_agents=[saying("a"), saying("b")]),
        lambda: Graph(name="all", edges=[(START, saying("a"), saying("b"))]),
    ],
    ids=["sequence", "parallel", "graph"],
)
def test_the_calls_of_all_agents_of_a_turn_are_there(local: Deploy, tree: Callable[[], BaseAgent]) -> None:
    with local(tree(), settings=ON) as rt:
        run_turn(rt, "go")
        calls = recorded(rt)
        assert sorted(call.agent for call in calls) == ["a", "b"]
        for call in calls:
            assert call.request is not None
            assert f"You are {call.agent}." in call.request.system_instruction


def test_nothing_is_recorded_by_default(deploy: Deploy) -> None:
    with deploy(saying("root")) as rt:
        run_turn(rt, "hi")
        assert recorded(rt) == []
        assert rows(deploy, "model_call_parts") == []
        turn = rt.turns.list("ada")[0].invocation_id
        with pytest.raises(InvocationNotFoundError):
            rt.turns.requests("ada", "s1", "none")
        with pytest.raises(SessionNotFoundError):
            rt.turns.requests("ada", "none", turn)


def test_records_are_shown_for_so_many_days(deploy: Deploy) -> None:
    with deploy(saying("root"), settings=ON) as rt:
        run_turn(rt, "hi")
        assert len(recorded(rt)) == 1
    # Nothing is so young.
    with deploy(saying("root"), settings=Settings(record_requests="on", record_requests_days=1e-9)) as rt:
        assert recorded(rt) == []


def test_a_share_of_turns_is_recorded_whole(deploy: Deploy) -> None:
    root = SequentialAgent(name="all", sub_agents=[saying("a"), saying("b")])
    with deploy(root, settings=Settings(record_requests=0.5)) as rt:
        for number in range(40):
            run_turn(rt, "go", invocation_id=f"e-{number}")
        counts = [len(rt.turns.requests("ada", "s1", f"e-{number}")) for number in range(40)]
        assert set(counts) == {0, 2}
        assert 20 < sum(counts) < 60


def masked(text: str) -> str:
    return text.replace(SECRET, "****")


def test_a_mask_is_applied_before_anything_is_stored(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "look_up", "args": {"order": "1"}}, ValueError(f"refused {SECRET}")])
    with deploy(LlmAgent(name="root", model=model, tools=[look_up]), settings=ON, mask_requests=masked) as rt:
        with pytest.raises(AgentFailedError):
            run_turn(rt, f"my card is {SECRET}")
        first, last = recorded(rt)
        assert first.request is not None
        assert last.request is not None
        assert first.request.contents[0].text == "my card is ****"
        [response] = last.request.contents[2].function_responses()
        assert response.response == {"order": "1", "card": "****"}
        assert last.error == "ValueError: refused ****"
    stored_raws = b"".join(raw for table in ("model_calls", "model_call_parts") for raw in rows(deploy, table))
    assert b"****" in stored_raws
    assert SECRET.encode() not in stored_raws


def failing(text: str) -> str:
    raise RuntimeError("the mask is broken")


@pytest.mark.parametrize("mask", [failing, lambda text: None])
def test_a_mask_that_fails_lets_nothing_through_and_fails_no_turn(local: Deploy, mask: Any) -> None:
    with local(saying("root"), settings=ON, mask_requests=mask) as rt:
        assert [event.text for event in run_turn(rt, SECRET)] == ["root speaks"]
        [call] = recorded(rt)
        assert (call.request, call.omitted[:20]) == (None, "mask_requests raised")
        assert rows(local, "model_call_parts") == []


async def slow(text: str) -> str:
    return text


@pytest.mark.parametrize(("mask", "why"), [("no function", "must be a function"), (slow, "is async")])
def test_a_mask_that_is_none_is_refused(local: Deploy, mask: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        local(saying("root"), mask_requests=mask)


def test_what_cannot_be_recorded_says_why_and_fails_no_turn(local: Deploy) -> None:
    def too_much(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        llm_request.contents.append(Content.of_text("x" * 200_000))

    settings = Settings(record_requests=1.0, max_event_bytes=100_000)
    with local(LlmAgent(name="root", model=PatternModel([]), before_model_callback=too_much), settings=settings) as rt:
        assert len(run_turn(rt, "hi")) == 1
        [call] = recorded(rt)
        assert call.request is None
        assert "a part of it has 200," in call.omitted


def test_records_go_with_the_user_the_session_and_a_rewind(deploy: Deploy) -> None:
    with deploy(desk(PatternModel([("order", {"call": "look_up", "args": {"order": "1"}})])), settings=ON) as rt:
        for user in ("ada", "bob"):
            for session in ("s1", "s2"):
                run_turn(rt, "my order", session, user, invocation_id="e-1")
                run_turn(rt, f"{user} says more", session, user, invocation_id="e-2")
        kept = recorded(rt, "s1", "bob")
        assert len(kept) == 3
        rt.sessions.delete("ada", "s2")
        rt.sessions.rewind("bob", "s2", "e-2")
        assert [call.invocation_id for call in recorded(rt, "s2", "bob")] == ["e-1", "e-1"]
        assert not any(b"bob says more" in raw for raw in rows(deploy, "model_call_parts", "bob", "s2"))
        rt.users.delete("ada")
        assert asked(recorded(rt, "s1", "bob")) == asked(kept)
    owners = {owner for owner, _ in all_rows(deploy, "model_calls") + all_rows(deploy, "model_call_parts")}
    assert owners == {("bob", "s1"), ("bob", "s2")}
    assert not any(b"ada says more" in raw for raw in rows(deploy, "model_call_parts"))


def all_rows(deploy: Deploy, table: str) -> list[tuple[tuple[str, str], bytes]]:
    """What a table has: of each row whose it is, and its content."""
    with closing(sqlite3.connect(f"file:{deploy.folder}/sessions.db?mode=ro", uri=True)) as connection:
        query = f"SELECT user, session, raw FROM raygrove_{table} LEFT JOIN raygrove_sessions USING (sid)"
        return [((user, session), raw) for user, session, raw in connection.execute(query)]


def rows(deploy: Deploy, table: str, *of: str) -> list[bytes]:
    return [raw for owner, raw in all_rows(deploy, table) if not of or owner == of]


def test_a_long_session_takes_room_in_proportion_to_its_length(local: Deploy, tmp_path: Path) -> None:
    def size() -> int:
        return sum(len(raw) + 60 for table in ("model_calls", "model_call_parts") for raw in rows(local, table))

    sizes = []
    with local(saying("root"), settings=ON) as rt:
        for _ in range(2):
            for number in range(60):
                run_turn(rt, f"message {number} of a long conversation")
            sizes.append(size())
        assert len(recorded(rt)[-1].request.contents) == 239  # type: ignore[union-attr]
    first, second = sizes[0], sizes[1] - sizes[0]
    assert second < 1.6 * first, f"the second half takes {second} bytes, the first {first}"
    assert second < 60 * 1_500


def test_a_call_is_recorded_though_its_answer_could_not_be_stored(tmp_path: Path) -> None:
    store = FailingStore(f"sqlite:///{tmp_path}/sessions.db")

    class BreakingModel:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            if len(request.contents) == 1:
                yield LlmResponse(content=Content.from_dict({"role": "model", "parts": [{"functionCall": {"name": "look_up"}}]}))
                return
            # Once for what is stored together, and once alone.
            store.failures = 2
            yield LlmResponse(content=Content.of_text("hello", role="model"))

    root = LlmAgent(name="root", model=BreakingModel(), tools=[look_up])
    with Deploy("local", tmp_path)(root, session_store=store, settings=ON) as rt:
        with pytest.raises(StoreError, match="the disk is full"):
            run_turn(rt, "go")
        assert [len(call.request.contents) for call in recorded(rt) if call.request] == [1, 3]


class Telling:
    """Calls a tool when it is asked to, and else tells what it is shown: a result as `=`, a call as `?`."""

    def __init__(self, calls: str = "") -> None:
        self.model = "telling"
        self.calls = calls

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        parts = [part for content in request.contents for part in content.parts]
        if self.calls and not any(part.function_response for part in parts):
            part = Part(function_call=FunctionCall(name=self.calls, args={"request": "ask"}))
        else:
            told = ["=" if each.function_response else "?" if each.function_call else each.text or "" for each in parts]
            part = Part(text=f"<{' '.join(told)}>")
        yield LlmResponse(content=Content(role="model", parts=[part]))


CONTEXT = RunConfig(model_input_context=["ctx"])


def told(rt: Runtime, message: Any, **options: Any) -> str:
    text: str = run_turn(rt, message, **options)[-1].text
    return text


def look(request: str) -> str:
    """Look something up."""
    return request


def test_it_stands_before_the_message_of_its_turn_in_all_its_calls_and_in_no_other_turn(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=Telling("look"), tools=[look])) as rt:
        assert told(rt, "one", run_config=CONTEXT) == "<ctx one ? =>"
        both = [Content.of_text("a", "model"), types.UserContent("b")]
        assert told(rt, "two", run_config=RunConfig(model_input_context=both)) == "<one ? = <ctx one ? => a b two>"
        assert told(rt, "three").endswith(" two <one ? = <ctx one ? => a b two> three>")
        assert [event.text for event in stored(rt) if event.author == "user"] == ["one", "two", "three"]


def test_the_same_words_said_twice_are_two_messages(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=Telling())) as rt:
        assert told(rt, "hi") == "<hi>"
        assert told(rt, "hi", run_config={"model_input_context": ["ctx"]}) == "<hi <hi> ctx hi>"


def test_agents_that_see_only_the_newest_part_have_it_first_and_so_do_agents_that_are_tools(deploy: Deploy) -> None:
    asked = LlmAgent(name="asked", description="Knows.", model=Telling())
    root = LlmAgent(name="root", model=Telling("asked"), tools=[AgentTool(asked)], include_contents="none")
    with deploy(root) as rt:
        told(rt, "one")
        assert told(rt, "two", run_config=CONTEXT) == "<ctx two ? =>"
        assert [event.text for event in stored(rt) if event.author == "asked"] == ["<ask>", "<ctx ask>"]


def wait(request: str) -> None:
    """Wait for somebody."""


@pytest.mark.parametrize("given", [None, RunConfig(model_input_context=["other"])], ids=["kept", "replaced"])
def test_a_turn_that_waits_keeps_it_for_the_next_program(given: RunConfig | None, deploy: Deploy) -> None:
    def tree() -> LlmAgent:
        return LlmAgent(name="root", model=Telling("wait"), tools=[LongRunningFunctionTool(wait)])

    with deploy(tree()) as rt:
        run_turn(rt, "one", run_config=CONTEXT)
    with deploy(tree()) as rt:
        (pending,) = rt.turns.pending("ada", "s1")
        answered = rt.answer(pending, {"result": "now"}, user_id="ada", session_id="s1", run_config=given)
        assert list(answered)[-1].text == f"<{'other' if given else 'ctx'} one ? =>"


def test_it_stands_before_the_first_message_of_a_turn_that_was_answered_with_words_too(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=Telling("wait"), tools=[LongRunningFunctionTool(wait)])) as rt:
        run_turn(rt, "one", run_config=CONTEXT)
        (pending,) = rt.turns.pending("ada", "s1")
        answer = Part(function_response=FunctionResponse(id=pending.call_id, name="wait", response={"result": "now"}))
        assert told(rt, Content(role="user", parts=[answer, Part(text="two")])) == "<ctx one ? = two>"
