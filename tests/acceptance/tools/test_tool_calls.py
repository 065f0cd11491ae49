"""Tools: how calls run, yield and are stopped, and which results the model gets."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import (
    AgentTool,
    Content,
    CustomAgent,
    Event,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    SequentialAgent,
    Tool,
    ToolContext,
    exit_loop,
    tool,
)
from actors.errors import AgentFailedError, DefinitionError
from actors.messages.json_types import JsonObject, JsonValue
from actors.testing import PatternModel, ScriptedModel
from runtime.settings import Settings
from tests.support.agents.conversation_tools import Gate, Rendezvous, add, add_later, fail, forget, look_up, put, put_nonsense
from tests.support.agents.failing_agents import SKIP
from tests.support.fixtures.session_fixture import settled
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


def answers(deploy: Deploy, tools: list[Any], *calls: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The results of the calls of one response, and the session's state after them."""
    model = ScriptedModel([{"parts": list(calls)}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=tools)) as rt:
        events = run_turn(rt, "go")
        assert [event.text for event in events] == ["", "", "done"]
        call, answer = list(events[0].function_calls()), list(events[1].function_responses())
        assert [each.id for each in answer] == [each.id for each in call]
        assert len({each.id for each in call}) == len(calls)
        assert [each.name for each in answer] == [each["call"] for each in calls]
        told_to_model = list(model.requests[1].contents[-1].function_responses())
        assert told_to_model == answer
        return [each.response for each in answer], stored_state(rt)


def test_the_calls_of_one_response_run_at_the_same_time_and_block_nobody(deploy: Deploy) -> None:
    met, _ = answers(deploy, Rendezvous().tools(), {"call": "block"}, {"call": "share"})
    assert met == [{"result": True}, {"result": True}]


def test_what_a_tool_did_wrong_or_was_given_wrongly_is_told_to_the_model(deploy: Deploy) -> None:
    tools = [look_up, fail, put_nonsense, put]
    calls: list[dict[str, Any]] = [
        {"call": "look_app"},
        {"call": "look_up"},
        {"call": "look_up", "args": {"order": ["4"]}},
        {"call": "fail"},
        {"call": "put_nonsense"},
        {"call": "put", "args": {"key": "k", "value": [1, None]}},
    ]
    told_back, state = answers(deploy, tools, *calls)
    errors = [response["error"] for response in told_back[:-1]]
    for error, words in zip(
        errors,
        [
            ("look_app", "look_up", "fail", "put"),
            ("look_up", "order"),
            ("order", "string"),
            ("ValueError", "kaput"),
            ("state['bad']", "object"),
        ],
        strict=True,
    ):
        assert all(word in error for word in words), error
    assert told_back[-1] == {"result": "ok"}
    assert state == {"k": [1, None]}


def test_a_tool_clears_the_state(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "put", "args": {"key": "a", "value": 1}}, {"call": "forget"}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[put, forget])) as rt:
        result = rt.run(user_id="ada", session_id="s1", message="go", state_delta={"k": 1, "user:b": 2}).result()
        assert result.text == "done"
        assert [each.response for each in result.events[3].function_responses()] == [{"last": ["a", 1], "left": {}, "k": []}]
        assert stored_state(rt) == {"a": None, "k": [], "user:b": None}


def test_the_calls_of_one_response_have_one_state(deploy: Deploy) -> None:
    items = ["a", "b", "c", "d"]
    in_threads, state = answers(deploy, [add], *({"call": "add", "args": {"item": item}} for item in items))
    assert sorted(state["cart"]) == sorted(state["log"]) == items
    assert sorted(len(response["result"]) for response in in_threads) == [1, 2, 3, 4]


def test_the_calls_of_one_response_have_one_state_on_an_event_loop_too(deploy: Deploy) -> None:
    on_loop, state = answers(deploy, [add_later], *({"call": "add_later", "args": {"item": item}} for item in "ab"))
    assert state == {"cart": ["a", "b"], "log": ["a", "b"]}
    assert on_loop == [{"result": ["a"]}, {"result": ["a", "b"]}]


@pytest.mark.parametrize("together", [False, True])
def test_of_a_key_the_value_that_was_written_last_stays_whichever_call_ends_last(local: Deploy, together: bool) -> None:
    has_written, has_ended = asyncio.Event(), asyncio.Event()

    async def slow(tool_context: ToolContext) -> None:
        """Write first, and end last."""
        tool_context.state["key"] = tool_context.state["slow"] = "slow"
        has_written.set()
        await has_ended.wait()
        for _ in range(10):
            await settled()

    async def quick(tool_context: ToolContext) -> None:
        """Write last, and end first."""
        await has_written.wait()
        tool_context.state["key"] = "quick"

    def note(tool: Tool, args: Any, tool_context: ToolContext, result: Any) -> None:
        if tool.name == "quick":
            has_ended.set()

    model = ScriptedModel([{"parts": [{"call": "slow"}, {"call": "quick"}]}, "done"])
    root = LlmAgent(name="root", model=model, tools=[slow, quick], after_tool_callback=note)
    with local(root, settings=Settings(results_wait_s=30 if together else 0)) as rt:
        events = run_turn(rt, "go")
        assert len(events) == (3 if together else 4)
        assert stored_state(rt) == {"key": "quick", "slow": "slow"}


@pytest.mark.parametrize(
    "ids", [("a", "a"), ("a", "a", "a"), ("a", None, "a"), ("b", "earlier"), ("earlier", "earlier")], ids=repr
)
def test_each_call_gets_its_own_result_whatever_ids_the_model_has_given(local: Deploy, ids: Sequence[str | None]) -> None:
    def echo(number: int) -> int:
        """Say the number."""
        return number

    calls = [{"call": "echo", "args": {"number": number}, "id": id} for number, id in enumerate(ids)]
    earlier = {"call": "echo", "args": {"number": 9}, "id": "earlier"}
    model = ScriptedModel([earlier, "done", {"parts": calls}, "done"])
    with local(LlmAgent(name="root", model=model, tools=[echo])) as rt:
        run_turn(rt, "first")
        run_turn(rt, "go")
        log = stored(rt)
    made = [call for event in log for call in event.function_calls()]
    given = {response.id: response.response for event in log for response in event.function_responses()}
    assert [given[call.id] for call in made] == [{"result": call.args["number"]} for call in made]
    assert len(given) == len(made) == len(ids) + 1


def test_the_model_can_ask_for_a_tool_that_does_not_exist_where_there_are_none(deploy: Deploy) -> None:
    told_back, _ = answers(deploy, [], {"call": "ghost"})
    assert "ghost" in told_back[0]["error"]


def test_an_agent_sees_its_tools_once_and_shares_its_model_with_those_below(deploy: Deploy) -> None:
    model = ScriptedModel([{"transfer": "sub"}, "hello"])
    sub = LlmAgent(name="sub", tools=[look_up, fail])
    with deploy(LlmAgent(name="root", model=model, sub_agents=[sub])) as rt:
        assert author_texts(run_turn(rt, "hi"))[-1] == ("sub", "hello")
        assert [tool.name for tool in model.requests[1].tools] == ["look_up", "fail", "transfer_to_agent"]
        assert [tool.parameters for tool in model.requests[1].tools if tool.name == "look_up"] == [
            {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"], "additionalProperties": False}
        ]


def test_a_call_that_only_decides_is_stored_together_with_its_answer(tmp_path: Path) -> None:
    def commits(*replies: Any, tools: Any = ()) -> int:
        billing = LlmAgent(name="billing", model=ScriptedModel(["paid"]))
        root = LlmAgent(name="root", model=ScriptedModel(list(replies)), sub_agents=[billing], tools=list(tools))
        with Deploy("local", tmp_path / str(len(list(tmp_path.iterdir()))))(root) as rt:
            run_turn(rt, "go")
            return rt.statistics().session.counts["commits"]

    alone = commits("done")
    # The call and its answer; the other agent's text takes the place of the root's own.
    assert commits({"transfer": "billing"}) == alone + 1
    assert commits({"call": "exit_loop"}, tools=[exit_loop]) == alone + 1
    # What a tool does must not happen before its call is in the log.
    assert (
        commits({"parts": [{"transfer": "billing"}, {"call": "look_up", "args": {"order": "4"}}]}, tools=[look_up]) == alone + 2
    )


def agent(*tools: Any, calls: int = 1) -> LlmAgent:
    made = [FunctionTool(each) if not isinstance(each, FunctionTool) else each for each in tools]
    parts = [{"call": each.name} for each in made] * calls
    return LlmAgent(name="root", model=ScriptedModel([{"parts": parts}, "done"]), tools=made)


def progress(events: list[Event]) -> list[Any]:
    """What readers were shown while calls ran."""
    responses = [response for event in events if event.partial for response in event.function_responses()]
    assert all(response.will_continue for response in responses)
    return [response.response for response in responses]


def results(events: list[Event]) -> list[Any]:
    return [each.response for event in events if not event.partial for each in event.function_responses()]


def in_a_thread() -> Iterator[Any]:
    """Yield in a thread."""
    here = threading.current_thread()
    yield "a third"
    yield {"done": 2}
    yield Path("/the/end") if threading.current_thread() is here else "elsewhere"


async def on_the_loop() -> AsyncIterator[str]:
    """Yield on the loop."""
    yield "half"
    yield "all"


def returning() -> Generator[str, None, dict[str, int]]:
    """Yield, and return the result."""
    yield "half"
    return {"sum": 1}


def nothing() -> Iterator[str]:
    """Yield nothing."""
    yield from ()


def failing() -> Iterator[str]:
    """Yield, and fail."""
    yield "half"
    raise ValueError("kaput")


def returning_a_coroutine() -> Awaitable[str]:
    """Return what is to be awaited."""

    async def later() -> str:
        return "later"

    return later()


class Called:
    """Can be called."""

    async def __call__(self) -> AsyncIterator[str]:
        yield "called"


@pytest.mark.parametrize(
    ("given", "shown", "result"),
    [
        (in_a_thread, [{"result": "a third"}, {"done": 2}, {"result": "/the/end"}], {"result": "/the/end"}),
        (on_the_loop, [{"result": "half"}, {"result": "all"}], {"result": "all"}),
        (returning, [{"result": "half"}], {"sum": 1}),
        (nothing, [], {"result": None}),
        (failing, [{"result": "half"}], {"error": "ValueError: kaput"}),
        (returning_a_coroutine, [], {"result": "later"}),
        (FunctionTool(Called(), name="called"), [{"result": "called"}], {"result": "called"}),
        (FunctionTool(functools.partial(on_the_loop), name="part"), [{"result": "half"}, {"result": "all"}], {"result": "all"}),
    ],
    ids=["thread", "loop", "returns", "nothing", "fails", "coroutine", "object", "partial"],
)
def test_what_a_tool_yields_is_shown_and_the_last_value_is_its_result(
    deploy: Deploy, given: Any, shown: list[Any], result: Any
) -> None:
    with deploy(agent(given)) as rt:
        events = run_turn(rt, "go")
        assert (progress(events), results(events), events[-1].text) == (shown, [result], "done")
        assert [event for event in stored(rt) if event.partial] == []


def test_readers_see_a_value_while_the_tool_runs(deploy: Deploy, gate: Gate) -> None:
    def wait() -> Iterator[str]:
        """Wait for a reader."""
        yield "before"
        yield gate.wait()

    with deploy(agent(wait)) as rt:
        turn = iter(rt.run(user_id="ada", session_id="s1", message="go"))
        while not progress([next(turn)]):
            pass
        gate.open()
        assert results(list(turn)) == [{"result": "open"}]


def test_a_tool_that_does_not_yield_reports_by_its_context(deploy: Deploy) -> None:
    @tool
    async def count(tool_context: ToolContext) -> str:
        """Count."""
        await tool_context.report_progress({"n": range(2)})
        await tool_context.report_progress("x" * 100_000)
        return "counted"

    with deploy(agent(count)) as rt:
        first, second = progress(run_turn(rt, "go"))
    assert first == {"n": [0, 1]}
    assert "characters are left out" in second["result"]


def test_two_calls_that_yield_show_both(local: Deploy) -> None:
    with local(agent(on_the_loop, in_a_thread)) as rt:
        events = run_turn(rt, "go")
    assert len(progress(events)) == 5
    assert results(events) == [{"result": "all"}, {"result": "/the/end"}]


def test_a_tool_that_runs_in_a_task_of_its_own_cannot_yield() -> None:
    with pytest.raises(DefinitionError, match="'nothing' runs in a task of its own: it cannot yield"):
        FunctionTool(nothing, needs={"num_cpus": 1})


WAITS_S = 10.0
"""Less than a function waits for another one that uses the state."""


@pytest.mark.parametrize("kind", ["tool", "delegate"])
def test_an_agent_that_a_call_has_asked_is_stopped_before_the_workflow_goes_on(local: Deploy, kind: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        """Hang."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def fail(tool: Any, args: Any, context: ToolContext) -> None:
        if tool.name == "other":
            await begun.wait()
            raise ValueError("kaput")

    def other() -> None:
        """Never runs."""

    class Next(CustomAgent):
        async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
            yield Event(content=Content.of_text(f"stopped: {stopped.is_set()}", role="model"))

    calls = [{"call": "expert", "args": {"request": "why?"}}, {"call": "other"}]
    fields: dict[str, Any] = {"mode": "single_turn"} if kind == "delegate" else {}
    expert = LlmAgent(name="expert", model=ScriptedModel([{"call": "hang"}]), tools=[hang], **fields)
    asker = LlmAgent(
        name="asker",
        model=ScriptedModel([{"parts": calls}]),
        tools=[other] if kind == "delegate" else [AgentTool(expert), other],
        sub_agents=[expert] if kind == "delegate" else [],
        before_tool_callback=fail,
    )
    root = SequentialAgent(name="root", sub_agents=[asker, Next(name="next")], supervision=SKIP)
    with local(root) as rt:
        assert author_texts(run_turn(rt, "go"))[-1] == ("next", "stopped: True")


def test_a_function_waits_no_more_for_the_state_that_another_one_holds(local: Deploy) -> None:
    """Both run on in their threads when their run has failed."""
    holds, waits, failed, may_return, has_state = (threading.Event() for _ in range(5))

    def hold(tool_context: ToolContext) -> None:
        """Use the state, and do not return."""
        tool_context.state["x"] = 1
        holds.set()
        may_return.wait(WAITS_S * 3)

    def wait(tool_context: ToolContext) -> None:
        """Use the state when the run has failed."""
        holds.wait(WAITS_S)
        waits.set()
        failed.wait(WAITS_S)
        tool_context.state.get("x")
        has_state.set()

    def other() -> None:
        """Never runs."""

    async def fail(tool: Any, args: Any, context: ToolContext) -> None:
        if tool.name == "other":
            await asyncio.to_thread(waits.wait, WAITS_S)
            raise ValueError("kaput")

    calls = {"parts": [{"call": "hold"}, {"call": "wait"}, {"call": "other"}]}
    root = LlmAgent(name="root", model=PatternModel([], default=calls), tools=[hold, wait, other], before_tool_callback=fail)
    with local(root) as rt:
        with pytest.raises(AgentFailedError, match="kaput"):
            run_turn(rt, "go")
        failed.set()
        found = has_state.wait(WAITS_S)
        may_return.set()
    assert found


def test_a_call_that_gives_up_waiting_stops_its_own_agent_and_no_other(local: Deploy) -> None:
    happened: list[str] = []
    has_begun, may_go_on = asyncio.Event(), asyncio.Event()
    waits: list[asyncio.Timeout] = []

    class Waits:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            try:
                if request.agent == "patient":
                    has_begun.set()
                else:
                    waits[0].reschedule(asyncio.get_running_loop().time())
                await may_go_on.wait()
                happened.append(f"{request.agent} answers")
            except asyncio.CancelledError:
                happened.append(f"{request.agent} is stopped")
                raise
            yield LlmResponse(content=Content.of_text("fine", role="model"))

    class Hasty(AgentTool):
        async def run(self, args: JsonObject, context: ToolContext) -> JsonValue:
            await has_begun.wait()
            try:
                async with asyncio.timeout(None) as limit:
                    waits.append(limit)
                    return await super().run(args, context)
            except TimeoutError:
                may_go_on.set()
                return "no answer"

    slow, patient = (LlmAgent(name=name, model=Waits()) for name in ("slow", "patient"))
    model = ScriptedModel([{"parts": [{"call": name, "args": {"request": "go"}} for name in ("slow", "patient")]}, "done"])
    with local(LlmAgent(name="root", model=model, tools=[Hasty(slow), AgentTool(patient)])) as rt:
        events = run_turn(rt, "go")
    given = [response.response for event in events if event.author == "root" for response in event.function_responses()]
    assert given == [{"result": "no answer"}, {"result": "fine"}]
    assert happened == ["slow is stopped", "patient answers"]
