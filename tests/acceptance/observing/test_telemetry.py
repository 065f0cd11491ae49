"""Spans and histograms of turns on the local engine; from several processes they are tested in tests/cluster."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from actors import AgentTool, BaseAgent, Budget, Content, LlmAgent, LlmResponse, LongRunningFunctionTool, RunConfig, tool
from actors.errors import BudgetExceededError, TurnError
from actors.messages.content import FunctionResponse, Part
from actors.messages.event import Usage
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.observability.telemetry import otel
from runtime.observability.telemetry.caller import called_with
from runtime.observability.telemetry.otel import OtelTelemetry
from runtime.observability.telemetry.sdk import configure
from runtime.settings import Settings
from runtime.web import app_for
from tests.acceptance.losses import trees
from tests.support.fixtures.lossy_engine import Loss, lossy_runtime
from tests.support.fixtures.telemetry import ProgramSdk, Telemetries, program_sdk
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.otlp_receiver import SpanTree, TakenSpan

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANSWERER = "00-11111111111111111111111111111111-2222222222222222-01"
SECRET = "the secret word"


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProgramSdk]:
    with program_sdk(monkeypatch) as made:
        yield made


@pytest.fixture
def deploy(tmp_path: Path) -> Deploy:
    return Deploy("local", tmp_path)


@tool
def look(what: str) -> dict[str, Any]:
    """Look something up."""
    with trace.get_tracer_provider().get_tracer("shop").start_as_current_span("shop's own"):
        return {"what": what}


@tool
def fail() -> None:
    """Fail."""
    raise LookupError(SECRET)


def ask() -> None:
    """Ask a person."""


def desk() -> LlmAgent:
    helper = LlmAgent(name="helper", description="Helps.", model=ScriptedModel(["helped"]))
    asks = {"call": "helper", "args": {"request": "help"}}
    billing = LlmAgent(
        name="billing",
        model=ScriptedModel([{"call": "look", "args": {"what": SECRET}}, asks, "done"]),
        tools=[look, AgentTool(helper)],
    )
    return LlmAgent(name="desk", model=ScriptedModel([{"transfer": "billing"}]), sub_agents=[billing])


def waiting() -> LlmAgent:
    model = ScriptedModel([{"call": "ask", "id": "c1"}, "thanks"])
    return LlmAgent(name="desk", model=model, tools=[LongRunningFunctionTool(ask)])


def test_a_turn_is_a_tree_of_runs_model_calls_and_tool_calls(deploy: Deploy, sdk: ProgramSdk) -> None:
    with deploy(desk()) as rt:
        (turn,) = {event.invocation_id for event in run_turn(rt, "go")}
    tree = sdk.tree()
    assert tree.lines() == [
        "invoke_workflow test",
        "  invoke_agent desk",
        "    chat ScriptedModel",
        "    execute_tool transfer_to_agent",
        "  invoke_agent billing",
        "    chat ScriptedModel",
        "    execute_tool look",
        "      shop's own",
        "    chat ScriptedModel",
        "    execute_tool helper",
        "    invoke_agent helper",
        "      chat ScriptedModel",
        "    chat ScriptedModel",
    ]
    runs = {span.attributes["gen_ai.agent.name"]: span for span in tree.of("invoke_agent")}
    assert runs["billing"].links == {runs["desk"].span_id: "transfer"}
    assert runs["helper"].links == {tree.named("execute_tool helper")[0].span_id: "call"}
    assert [runs[name].attributes["raygrove.outcome"] for name in ("desk", "billing")] == ["transfer", "finished"]
    assert tree.root.attributes == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "test",
        "gen_ai.conversation.id": "s1",
        "user.id": "ada",
        "raygrove.agent": "desk",
        "raygrove.invocation_id": turn,
        "raygrove.epoch": 1,
        "raygrove.seq": 1,
        "raygrove.outcome": "finished",
    }
    assert all(tree.root.start_ns <= span.start_ns <= span.end_ns <= tree.root.end_ns for span in tree.spans)
    assert SECRET not in repr(sdk.spans)


def test_a_turn_belongs_to_the_span_in_which_the_program_starts_it(deploy: Deploy, sdk: ProgramSdk) -> None:
    tracer = sdk.tracers.get_tracer("shop")

    async def run_async(rt: Runtime) -> None:
        with tracer.start_as_current_span("async"):
            assert [event async for event in rt.run(user_id="ada", session_id="s3", message="go")]
            assert (await rt.aio.ask("go", user_id="ada", session_id="s4")) is not None

    with deploy(LlmAgent(name="desk", model=PatternModel([]))) as rt:
        with tracer.start_as_current_span("sync"):
            run_turn(rt, "go")
            rt.ask("go", user_id="ada", session_id="s2")
            assert len(list(rt.map(["go"]))) == 1
        asyncio.run(run_async(rt))
        run_turn(rt, "go", "s5")
        run_turn(rt, "go", "s5")
    by_id = {span.span_id: span.name for span in sdk.spans}
    turns = [span for span in sdk.spans if span.operation == "invoke_workflow"]
    assert [by_id.get(span.above, "") for span in turns] == ["sync", "sync", "sync", "async", "async", "", ""]
    assert len({span.trace_id for span in turns}) == 4


async def test_a_turn_belongs_to_the_header_of_its_request(deploy: Deploy, sdk: ProgramSdk) -> None:
    adk = {"appName": "test", "userId": "ada", "sessionId": "s2", "newMessage": {"role": "user", "parts": [{"text": "go"}]}}
    with deploy(LlmAgent(name="desk", model=PatternModel([]))) as rt:
        transport = httpx2.ASGITransport(app_for(rt))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            posted = [("/v1/apps/test/sessions/s1/turns?user=ada", {"message": "go"}, CALLER), ("/run", adk, ANSWERER)]
            posted.append(("/v1/apps/test/sessions/s3/turns?user=ada", {"message": "go"}, "nonsense"))
            for path, body, header in posted:
                done = await client.post(path, json=body, headers={"traceparent": header})
                assert done.status_code == 200, done.text
    turns = [span for span in sdk.spans if span.operation == "invoke_workflow"]
    assert [span.above for span in turns] == [CALLER.split("-")[2], ANSWERER.split("-")[2], ""]
    assert [span.trace_id for span in turns[:2]] == [CALLER.split("-")[1], ANSWERER.split("-")[1]]


def test_a_turn_goes_on_in_its_trace_after_a_pause(deploy: Deploy, sdk: ProgramSdk) -> None:
    with deploy(waiting()) as rt, called_with(CALLER):
        run_turn(rt, "go")
    answer = Content(role="user", parts=[Part(function_response=FunctionResponse(id="c1", name="ask", response={"ok": True}))])
    model = ScriptedModel(["thanks"])
    with deploy(LlmAgent(name="desk", model=model, tools=[LongRunningFunctionTool(ask)])) as rt, called_with(ANSWERER):
        run_turn(rt, answer)
    tree = sdk.tree(CALLER)
    assert tree.lines() == [
        "invoke_workflow test",
        *("  invoke_agent desk", "    chat ScriptedModel", "    execute_tool ask"),
        "  invoke_workflow test",
        *("    invoke_agent desk", "      chat ScriptedModel"),
    ]
    paused, answered = tree.named("invoke_workflow test")
    assert (paused.attributes["raygrove.outcome"], answered.attributes["raygrove.outcome"]) == ("paused", "finished")
    assert answered.links == {ANSWERER.split("-")[2]: "answer"}


def test_failures_have_their_kind_and_no_text(deploy: Deploy, sdk: ProgramSdk) -> None:
    model = ScriptedModel([{"call": "fail"}, ConnectionError(SECRET)])
    with deploy(LlmAgent(name="desk", model=model, tools=[fail])) as rt, pytest.raises(TurnError):
        run_turn(rt, "go")
    tree = sdk.tree()
    kinds = {span.name: span.attributes.get("error.type") for span in tree.spans}
    assert kinds == {
        "invoke_workflow test": "ConnectionError",
        "invoke_agent desk": "ConnectionError",
        "chat ScriptedModel": "ConnectionError",
        "execute_tool fail": "LookupError",
    }
    assert SECRET not in repr(sdk.spans)


@pytest.mark.parametrize(
    ("budget", "told", "spans"),
    [
        ({"at_limit": "stop"}, ["stop turn llm_calls 2 2"], ["raygrove.budget"]),
        ({"at_limit": "ask"}, ["warn turn llm_calls 2 2", "ask turn llm_calls 2 2"], ["raygrove.budget"]),
        ({"at_limit": "wrap_up"}, ["warn turn llm_calls 2 2", "wrap_up"], ["chat ScriptedModel"]),
    ],
)
def test_budgets_are_events_of_the_calls_before_which_they_are_found_used(
    budget: dict[str, Any], told: list[str], spans: list[str], deploy: Deploy, sdk: ProgramSdk
) -> None:
    model = ScriptedModel([{"call": "look", "args": {"what": "x"}}] * 2 + ["done"])
    config = RunConfig(budget=Budget(llm_calls=2, **budget))
    with deploy(LlmAgent(name="desk", model=model, tools=[look])) as rt, suppress(BudgetExceededError):
        run_turn(rt, "go", run_config=config)
    events = [(span.name, attributes) for span in sdk.spans for attributes in span.told if "raygrove.budget" in span.events]
    fields = ("action", "scope", "field", "limit", "used")
    found = []
    for _, attributes in events:
        values = [attributes.get(f"raygrove.budget.{field}") for field in fields]
        found.append(" ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values if value))
    assert found == told
    assert list(dict.fromkeys(name for name, _ in events)) == spans
    assert "ada" not in repr(events)


def test_content_is_on_spans_only_where_the_environment_asks_for_it(
    deploy: Deploy, sdk: ProgramSdk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    with deploy(desk()) as rt:
        run_turn(rt, "go")
    tree = sdk.tree()
    (call,) = tree.named("execute_tool look")
    assert call.attributes["gen_ai.tool.call.arguments"] == f'{{"what":"{SECRET}"}}'
    assert call.attributes["gen_ai.tool.call.result"] == f'{{"what":"{SECRET}"}}'
    first = tree.of("chat")[0]
    assert first.attributes["gen_ai.input.messages"] == '[{"role":"user","parts":[{"type":"text","content":"go"}]}]'
    assert '"name":"transfer_to_agent"' in first.attributes["gen_ai.output.messages"]
    assert '"transfer_to_agent"' in first.attributes["gen_ai.tool.definitions"]


def test_histograms_count_calls_tokens_and_time(deploy: Deploy, sdk: ProgramSdk) -> None:
    usage = Usage(prompt_token_count=7, candidates_token_count=3, thoughts_token_count=2, cached_content_token_count=4)
    answer = LlmResponse(content=Content.of_text("done", role="model"), usage=usage, finish_reason="STOP")
    model = ScriptedModel([{"call": "look", "args": {"what": "it"}}, {"stream": ["a", "b", "c"]}, answer])
    with deploy(LlmAgent(name="desk", model=model, tools=[look])) as rt:
        run_turn(rt, "go", run_config=RunConfig(streaming="sse"))
        run_turn(rt, "go")
    counts = {name: sum(each.number for each in sdk.histograms(name)) for name in HISTOGRAMS}
    assert counts == HISTOGRAMS
    tokens = {each.attributes["gen_ai.token.type"]: each.sum for each in sdk.histograms("gen_ai.client.token.usage")}
    assert tokens == {"input": 7, "output": 5}
    (calls,) = sdk.histograms("gen_ai.invoke_agent.inference_calls")
    assert (calls.sum, calls.attributes["gen_ai.agent.name"]) == (3, "desk")
    last = [span for span in sdk.spans if span.operation == "chat"][-1]
    named = {
        name.removeprefix("gen_ai."): value for name, value in last.attributes.items() if "usage" in name or "finish" in name
    }
    assert named == {
        "response.finish_reasons": ("stop",),
        "usage.input_tokens": 7,
        "usage.output_tokens": 5,
        "usage.reasoning.output_tokens": 2,
        "usage.cache_read.input_tokens": 4,
    }


HISTOGRAMS = {
    "gen_ai.workflow.duration": 2,
    "raygrove.turn.wait": 2,
    "gen_ai.invoke_agent.duration": 2,
    "gen_ai.invoke_agent.inference_calls": 2,
    "gen_ai.invoke_agent.tool_calls": 2,
    "gen_ai.client.operation.duration": 3,
    "gen_ai.client.operation.time_to_first_chunk": 2,
    "gen_ai.client.operation.time_per_output_chunk": 3,
    "gen_ai.client.token.usage": 2,
    "gen_ai.execute_tool.duration": 1,
}
"""How often each is recorded in two turns: a tool call, a streamed answer of three parts, and one that is not streamed."""


def test_a_trace_that_is_not_sampled_leaves_no_span(deploy: Deploy, sdk: ProgramSdk, monkeypatch: pytest.MonkeyPatch) -> None:
    with deploy(desk()) as rt, called_with(CALLER.removesuffix("01") + "00"):
        run_turn(rt, "go")
    assert sdk.spans == []
    with program_sdk(monkeypatch, ALWAYS_OFF) as other, deploy(desk()) as rt:
        run_turn(rt, "go", "s2")
    assert other.spans == []


def test_records_name_their_trace(deploy: Deploy, sdk: ProgramSdk, caplog: pytest.LogCaptureFixture) -> None:
    with deploy(LlmAgent(name="desk", model=ScriptedModel([{"call": "fail"}, "done"]), tools=[fail])) as rt:
        run_turn(rt, "go")
    (record,) = [each for each in caplog.records if each.name == "actors.behaviours.tool_calls"]
    assert (record.agent, record.app_name, record.session_id) == ("desk", "test", "s1")  # type: ignore[attr-defined]
    assert record.trace_id == sdk.tree().root.trace_id  # type: ignore[attr-defined]


class Raising(SpanProcessor):
    """A user's processor that is broken."""

    def on_end(self, span: ReadableSpan) -> None:
        raise ValueError("broken")


def test_a_processor_that_raises_harms_no_turn(deploy: Deploy, sdk: ProgramSdk, caplog: pytest.LogCaptureFixture) -> None:
    sdk.tracers.add_span_processor(Raising())
    agent = LlmAgent(name="desk", model=PatternModel([], default="hello"))
    with deploy(agent) as rt:
        assert run_turn(rt, "go")[-1].text == "hello"
    assert "a span cannot be ended" in caplog.text


async def test_a_process_that_ends_waits_only_a_moment_for_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    class Stuck(TracerProvider):
        def force_flush(self, timeout_millis: int = 0) -> bool:
            return answers.wait(10)

    monkeypatch.setattr(otel, "FLUSH_S", 0.05)
    telemetry = OtelTelemetry(Stuck(shutdown_on_exit=False), MeterProvider(shutdown_on_exit=False))
    began_s = time.monotonic()
    await telemetry.flush()
    assert time.monotonic() - began_s < 5
    answers.set()


def test_a_function_of_the_user_s_is_called_once_and_may_fail(deploy: Deploy, caplog: pytest.LogCaptureFixture) -> None:
    agent = LlmAgent(name="desk", model=PatternModel([], default="hello"))
    for _ in range(2):
        with deploy(agent, settings=Settings(telemetry="tests.support.fixtures.telemetry:count_call")) as rt:
            run_turn(rt, "go")
    from tests.support.fixtures import telemetry

    assert telemetry.CALLS == [1]
    with caplog.at_level(logging.ERROR), deploy(agent, settings=Settings(telemetry="tests.support.nowhere:configure")) as rt:
        assert run_turn(rt, "go")[-1].text == "hello"
    assert "there is no telemetry" in caplog.text
    with pytest.raises(Exception, match="names no function"):
        Settings(telemetry="configure")


def test_an_exporter_that_is_not_there_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ValueError, match=r"'grpc': spans are exported by 'http/protobuf'.*RAYGROVE_TELEMETRY"):
        configure("shop")


PROGRAM = """
import sys
from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime
with Runtime(LlmAgent(name="desk", model=PatternModel([])), app_name="a", engine="local", session_store="sqlite:///s.db") as rt:
    rt.run(user_id="ada", session_id="s", message="go").result()
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_without_an_sdk_nothing_of_opentelemetry_is_imported(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


TREES = [trees.transfers, trees.side_by_side, trees.asking]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.__name__)
def test_a_turn_is_one_tree_whatever_is_lost(tree: Any, tmp_path: Path) -> None:
    spans, messages = told(tree(), tmp_path / "whole", [])
    whole = SpanTree(spans, CALLER)
    for number, who in enumerate(("agents", "session", "runner", "sender")):
        at = (1 + number) * messages // 5
        spans, _ = told(tree(), tmp_path / who, [Loss(at, who, before=True)])  # type: ignore[arg-type]
        # A Runner that takes a turn up cannot know which runs its predecessor has told of.
        after = SpanTree(spans, CALLER, may_repeat=who in ("runner", "sender"))
        assert runs_in(after) == runs_in(whole)


def told(root: BaseAgent, folder: Path, losses: list[Loss]) -> tuple[list[TakenSpan], int]:
    folder.mkdir()
    rt, engine = lossy_runtime(root, folder, losses)
    telemetries = Telemetries()
    engine.telemetry = telemetries.of_process
    with rt, called_with(CALLER):
        run_turn(rt, "go")
    assert bool(engine.lost) == bool(losses)
    return telemetries.spans, engine.messages


def runs_in(tree: SpanTree) -> Counter[tuple[str, str]]:
    return Counter((tree.above(span), span.name) for span in tree.of("invoke_agent"))
