"""The traces of turns from many processes, of which an agent's and the Runner's are killed, as an OTLP receiver gets them."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
import ray
from opentelemetry import trace
from ray.core.generated import gcs_pb2

from actors import Event, LlmAgent, ParallelAgent, SequentialAgent, tool
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.observability.telemetry.caller import called_with
from runtime.settings import Settings
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.otlp_receiver import Received, SpanTree, otlp_receiver

pytestmark = pytest.mark.usefixtures("local_ray")

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER_CALLER = "00-1bf7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"
ENOUGH_S = 30.0
TOLD_BEFORE = Counter(
    {
        **{f"invoke_agent {agent}": 1 for agent in ("desk", "both", "left", "right")},
        "chat PatternModel": 6,
        "execute_tool transfer_to_agent": 1,
        "execute_tool look": 2,
    }
)
"""What is told of a turn when the last agent's tool is under way."""


@tool
def look(what: str) -> dict[str, Any]:
    """Look something up."""
    return {"what": what}


@tool
def die_once(mark: str) -> dict[str, Any]:
    """End this process, the first time. Later, wait while the test holds the mark."""
    path = Path(mark)
    if not path.exists():
        path.touch()
        # Spans that wait in a process are lost with it.
        provider: Any = trace.get_tracer_provider()
        provider.force_flush()
        os.kill(os.getpid(), signal.SIGKILL)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    # The node collects no metrics here, so nothing is imported to hand on any.
    return {"alive": True, "metrics": "ray.util.metrics" in sys.modules}


def team(mark: str) -> LlmAgent:
    """An agent that transfers to a sequence: two at once, then one whose process is killed."""
    looking = PatternModel([("tool:look", "seen")], default={"call": "look", "args": {"what": "it"}})
    dying = PatternModel([("tool:die_once", "done")], default={"call": "die_once", "args": {"mark": mark}})
    both = ParallelAgent(name="both", sub_agents=[LlmAgent(name=name, model=looking, tools=[look]) for name in ("left", "right")])
    last = LlmAgent(name="last", model=dying, tools=[die_once])
    work = SequentialAgent(name="work", sub_agents=[both, last])
    return LlmAgent(name="desk", model=PatternModel([], default={"transfer": "work"}), sub_agents=[work])


def check_against_log(tree: SpanTree, events: list[Event]) -> None:
    """Every agent, call and answer of the log has its span, and no other has."""
    spoken = {event.author for event in events if event.author != "user"}
    assert {span.attributes["gen_ai.agent.name"] for span in tree.of("invoke_agent")} == spoken | {"both"}
    calls = {call.id: call.name for event in events for call in event.function_calls()}
    assert {
        span.attributes["gen_ai.tool.call.id"]: span.attributes["gen_ai.tool.name"] for span in tree.of("execute_tool")
    } == calls
    answers = Counter(event.author for event in events if event.content is not None and event.content.role == "model")
    asked = Counter(span.attributes["gen_ai.agent.name"] for span in tree.of("chat"))
    assert asked == answers


@pytest.mark.full
def test_turns_with_a_killed_agent_and_a_killed_runner_are_one_tree_each_from_many_processes(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with otlp_receiver() as received:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with Deploy("ray", tmp_path)(team(str(mark)), settings=Settings(max_live_agents=3, env=env)) as rt:
            with called_with(CALLER):
                events = run_turn(rt, "go")
            assert rt.statistics().runner.counts["hosts"] >= 2
            shown = names_in_dashboard()
            with called_with(OTHER_CALLER):
                later = run_and_lose_runner(rt, received, mark)
        check(received, CALLER, events, last=(1, ("raygrove.process_lost",)), epoch=1)
        check(received, OTHER_CALLER, later, last=(None, ()), epoch=2)
        assert {"test/session", "test/runner"} <= shown
        assert len([name for name in shown if name.startswith("test/host/")]) >= 2
    (answer,) = [found for event in later for found in event.function_responses() if found.name == "die_once"]
    assert answer.response == {"alive": True, "metrics": False}


def run_and_lose_runner(rt: Runtime, received: Received, mark: Path) -> list[Event]:
    """A turn whose Runner is killed, and with it the agents' processes, while the last agent's tool is under way."""
    with mark.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        turn = iter(rt.run(user_id="ada", session_id="s2", message="go"))
        events = [next(turn)]
        while not (events[-1].author == "last" and events[-1].function_calls()):
            events.append(next(turn))
        # What a process has not sent is lost with it.
        received.wait_for(OTHER_CALLER, TOLD_BEFORE, ENOUGH_S)
        figures = rt.statistics()
        agent = os.pidfd_open(figures.agents["last"].pid)
        os.kill(figures.runner.pid, signal.SIGKILL)
        assert select.select([agent], [], [], ENOUGH_S)[0], "the agent's process outlives its Runner"
        os.close(agent)
    return [*events, *turn]


def names_in_dashboard() -> set[str]:
    """The names that Ray's dashboard shows of actors. Its own interface needs the dashboard."""
    state, tables = cast(Any, ray._private.state.state), cast(Any, gcs_pb2)
    raws = state._connect_and_get_accessor().get_actor_table(None, None)
    return {tables.ActorTableData.FromString(raw).repr_name for raw in raws}


def check(received: Received, caller: str, events: list[Event], *, last: tuple[int | None, tuple[str, ...]], epoch: int) -> None:
    """The spans of a turn are one tree, as its log has it.

    Args:
        last: the losses and the events of the last agent's run.
    """
    tree = SpanTree(received.of_trace(caller), caller)
    check_against_log(tree, events)
    assert len({span.pid for span in tree.spans}) >= 3
    assert tree.root.name == "invoke_workflow test"
    assert tree.root.attributes["raygrove.invocation_id"] == events[0].invocation_id
    assert tree.root.attributes["raygrove.epoch"] == epoch
    runs = {span.attributes["gen_ai.agent.name"]: span for span in tree.of("invoke_agent")}
    assert {agent: tree.above(span) for agent, span in runs.items()} == {
        "desk": "invoke_workflow test",
        "work": "invoke_workflow test",
        "both": "invoke_agent work",
        "left": "invoke_agent both",
        "right": "invoke_agent both",
        "last": "invoke_agent work",
    }
    assert runs["work"].links == {runs["desk"].span_id: "transfer"}
    assert (runs["last"].attributes.get("raygrove.losses"), runs["last"].events) == last
    for span in [*tree.of("chat"), *tree.of("execute_tool")]:
        assert tree.above(span) == f"invoke_agent {span.attributes['gen_ai.agent.name']}"
    names = {each.name for each in received.histograms}
    assert {"gen_ai.workflow.duration", "gen_ai.invoke_agent.duration", "gen_ai.client.operation.duration"} <= names
    assert {"gen_ai.execute_tool.duration", "gen_ai.invoke_agent.inference_calls", "gen_ai.invoke_agent.tool_calls"} <= names
