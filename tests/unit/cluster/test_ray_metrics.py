"""What a process hands on to Ray's metrics, and that it hands on nothing where Ray collects none."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import ray.util.metrics

from actors.interfaces.telemetry import NO_TELEMETRY
from actors.messages.content import FunctionCall
from actors.messages.event import Usage
from actors.messages.llm import LlmRequest, LlmResponse
from actors.messages.protocol.base import TurnRef
from actors.messages.protocol.runs import Cancelled, Failed, Finished
from actors.messages.session import SessionKey
from runtime.cluster.ray_metrics import RayMetrics
from runtime.observability.figures import Figure, of_counts
from runtime.settings import Settings

KEY = SessionKey("shop", "ada", "s1")
TURN = TurnRef(key=KEY, invocation_id="i1", epoch=1)


class Collected:
    """Takes the place of Ray's metrics: what they have, by name and labels."""

    def __init__(self) -> None:
        self.values: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.labels: dict[str, tuple[str, ...]] = {}

    def metric(self, name: str, description: str = "", tag_keys: tuple[str, ...] = ()) -> Any:
        assert self.labels.setdefault(name, tag_keys) == tag_keys

        def change(value: float, tags: dict[str, str], *, adds: bool) -> None:
            assert set(tags) == set(tag_keys)
            place = name, ",".join(each for label, each in tags.items() if label not in ("app", "actor"))
            self.values[place] = (self.values[place] if adds else 0) + value

        return SimpleNamespace(
            inc=lambda value, tags: change(value, tags, adds=True), set=lambda value, tags: change(value, tags, adds=False)
        )


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Collected:
    collected = Collected()
    monkeypatch.setattr(ray._private.worker, "_global_node", SimpleNamespace(metrics_agent_port=41_000))
    monkeypatch.setattr(ray.util.metrics, "Counter", collected.metric)
    monkeypatch.setattr(ray.util.metrics, "Gauge", collected.metric)
    return collected


async def told(metrics: RayMetrics, figures: Iterable[Figure] = ()) -> None:
    """Have everything handed on once."""
    metrics._tell(lambda: figures, 3_600)


@pytest.mark.parametrize("port", [-1, 0, None])
def test_nothing_is_measured_or_handed_on_where_the_node_collects_no_metrics(
    monkeypatch: pytest.MonkeyPatch, port: int | None
) -> None:
    monkeypatch.setattr(ray._private.worker, "_global_node", SimpleNamespace(metrics_agent_port=port))
    check_off(Settings())


def test_nothing_is_measured_or_handed_on_without_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray._private.worker, "_global_node", None)
    check_off(Settings())


def test_the_setting_turns_it_off(collected: Collected) -> None:
    check_off(Settings(ray_metrics=False))
    assert not collected.values


def check_off(settings: Settings) -> None:
    metrics = RayMetrics(settings, "shop", "shop/runner")
    # Without a running event loop: nothing is scheduled.
    metrics.start(lambda: pytest.fail("the figures are not wanted"))
    assert metrics.telemetry(NO_TELEMETRY) is NO_TELEMETRY


async def test_what_grows_is_counted_once_and_what_does_not_is_set(collected: Collected) -> None:
    metrics = RayMetrics(Settings(), "shop", "shop/runner")
    for turns, hosts in ((3, 2), (3, 1), (5, 1)):
        await told(metrics, of_counts("runner", {"turns": turns, "hosts": hosts}))
        assert collected.values == {("raygrove_runner_turns", ""): turns, ("raygrove_runner_hosts", ""): hosts}


async def test_figures_with_labels_are_told_apart(collected: Collected) -> None:
    metrics = RayMetrics(Settings(), "shop", "shop/limits")
    figures = [*of_counts("model", {"granted": 2}, {"model": "a"}), *of_counts("model", {"granted": 7}, {"model": "b"})]
    await told(metrics, figures)
    await told(metrics, figures)
    assert collected.values == {("raygrove_model_granted", "a"): 2, ("raygrove_model_granted", "b"): 7}


async def test_durations_and_tokens_are_counted_in_buckets(collected: Collected) -> None:
    metrics = RayMetrics(Settings(), "shop", "shop/host/1")
    telemetry = metrics.telemetry(NO_TELEMETRY)
    assert not telemetry.is_on
    run = telemetry.in_run("", "desk", KEY)
    with run.model_call(LlmRequest(), "gpt-5", stream=True) as call:
        call.chunk()
        call.chunk()
        call.answered(LlmResponse(usage=Usage(prompt_token_count=20, candidates_token_count=3, thoughts_token_count=2)))
    with pytest.raises(ZeroDivisionError), run.model_call(LlmRequest(model="gpt-6"), "gpt-5", stream=False):
        raise ZeroDivisionError
    with run.tool_call(FunctionCall(name="look"), "") as tool:
        tool.failed(KeyError("x"))
    run.end_run()
    await told(metrics)
    values = collected.values
    assert values["gen_ai_client_operation_duration_seconds_count", "gpt-5,"] == 1
    assert values["gen_ai_client_operation_duration_seconds_count", "gpt-6,ZeroDivisionError"] == 1
    assert values["gen_ai_client_operation_time_to_first_chunk_seconds_count", "gpt-5"] == 1
    assert values["gen_ai_client_operation_time_per_output_chunk_seconds_count", "gpt-5"] == 1
    assert values["gen_ai_client_token_usage_sum", "gpt-5,input"] == 20
    assert values["gen_ai_client_token_usage_sum", "gpt-5,output"] == 5
    assert values["gen_ai_client_token_usage_bucket", "gpt-5,input,16"] == 0
    assert values["gen_ai_client_token_usage_bucket", "gpt-5,input,256"] == 1
    assert values["gen_ai_execute_tool_duration_seconds_bucket", "look,KeyError,+Inf"] == 1
    assert values["gen_ai_invoke_agent_inference_calls_sum", ""] == 2
    assert values["gen_ai_invoke_agent_duration_seconds_count", ""] == 1


async def test_a_turn_is_counted_with_what_has_failed(collected: Collected) -> None:
    metrics = RayMetrics(Settings(), "shop", "shop/runner")
    telemetry = metrics.telemetry(NO_TELEMETRY)
    for took_s, outcome in (
        (0.1, Finished(agent="desk")),
        (0.2, Finished(agent="desk")),
        (9.0, Failed(agent="desk", error_code="ModelServiceError")),
        (60.0, Cancelled(agent="desk", timeout_s=60.0)),
    ):
        telemetry.turn_took(TURN, took_s, outcome)
    for _ in range(2):
        # What was taken is not taken again.
        await told(metrics)
        values = {place: value for (name, place), value in collected.values.items() if name.endswith("_bucket") and value}
        assert values == {
            ",0.16": 1,
            **{f",{bound}": 2 for bound in (0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, "+Inf")},
            **{f"ModelServiceError,{bound}": 1 for bound in (10.24, 20.48, 40.96, 81.92, "+Inf")},
            **{f"timeout,{bound}": 1 for bound in (81.92, "+Inf")},
        }
    sums = {place: round(value, 6) for (name, place), value in collected.values.items() if name.endswith("_sum")}
    assert sums == {"": 0.3, "ModelServiceError": 9.0, "timeout": 60.0}


async def test_it_is_handed_on_twice_in_each_interval_of_ray(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[float] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda delay_s, *_: called.append(delay_s))
    RayMetrics(Settings(), "shop", "shop/session").start(tuple)
    assert called == [5.0]
