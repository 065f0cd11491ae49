"""The dashboard and the alert rules in examples/cluster ask for figures that there are, by labels that they have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from actors import LlmAgent, ModelLimits
from actors.testing import PatternModel
from runtime.observability.catalogue import METRICS, underscored
from runtime.settings import Settings
from runtime.web import app_for
from tests.support.polling import until
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, serving

FOLDER = Path(__file__).parents[3] / "examples" / "cluster"

_NAME = re.compile(r"\b(?:ray_)?(?:raygrove|gen_ai)_\w+\b(?=[{)\[ ]|$)")
_SELECTED = re.compile(r"\b((?:ray_)?(?:raygrove|gen_ai)_\w+)\{([^}]*)\}")
_GROUPED = re.compile(r"by \(([^)]*)\) \((?:[a-z_]+\()?((?:ray_)?(?:raygrove|gen_ai)_\w+)")
_BY = re.compile(r"by \([^)]*\)")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$", re.MULTILINE)

ON_RAY = ("raygrove_runner_max_hosts",)
"""Figures that the local engine does not have, all of whose agents live in one process."""


def look_up() -> str:
    """Look an order up."""
    return "late"


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    board = json.loads((FOLDER / "dashboard.json").read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    """Every expression of both files."""
    return [rule["expr"] for rule in rules()] + [target["expr"] for panel in panels() for target in panel["targets"]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """Each figure of a server of an app with a limited model, and its labels; those of Ray's metrics beside them.

    A tool was called, and a schedule has made a turn.
    """
    settings = Settings(model_limits={"PatternModel": ModelLimits(max_concurrency=1)})
    model = PatternModel([("order", {"call": "look_up", "args": {}}), ("tool:", "Found.")], default="Hello!")
    with Deploy("local", tmp_path_factory.mktemp("stores"))(
        LlmAgent(name="desk", model=model, tools=[look_up]), app_name="desk", settings=settings
    ) as rt:
        rt.run(user_id="ada", session_id="s1", message="my order").result()
        rt.schedules.create("soon", at=datetime.now(UTC) + timedelta(seconds=1), user_id="ada", session_id="s1", message="hi")
        until(lambda: len(rt.turns.list("ada", state="finished")) == 2)
        with serving(app_for(rt)) as url:
            httpx2.get(f"{url}/healthz", timeout=TIMEOUT_S)
            text = httpx2.get(f"{url}/metrics", timeout=TIMEOUT_S).text
    found = {name: set(_LABEL.findall(labels)) for name, labels in _SAMPLE.findall(text)}
    found |= {name: {"app"} for name in ON_RAY}
    for metric in METRICS.all():
        labels = {"app", *map(underscored, metric.labels)}
        found |= {f"ray_{metric.prometheus_name}_{kind}_total": labels for kind in ("count", "sum")}
        found[f"ray_{metric.prometheus_name}_bucket_total"] = labels | {"le"}
    return found


def test_every_figure_that_is_asked_for_is_served(served: Mapping[str, set[str]]) -> None:
    asked = {name for expression in expressions() for name in _NAME.findall(_BY.sub("", expression))}
    assert len(asked) > 20
    assert asked <= served.keys(), asked - served.keys()


def test_figures_are_selected_and_grouped_by_labels_that_they_have(served: Mapping[str, set[str]]) -> None:
    target = {"instance", "job"}
    for expression in expressions():
        for name, selectors in _SELECTED.findall(expression):
            assert set(_LABEL.findall(selectors)) <= served[name], expression
        for labels, name in _GROUPED.findall(expression):
            assert set(labels.split(", ")) <= served[name] | target, expression


def test_what_only_grows_is_asked_for_its_rate() -> None:
    for expression in expressions():
        for counter in re.findall(r"([a-z_]*\(?)(?:ray_)?(?:raygrove|gen_ai)_\w+_total\b", expression):
            assert counter in ("rate(", "increase(", "resets("), expression


def test_each_rule_says_what_to_look_at() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "description"}
    assert len({rule["alert"] for rule in rules()}) == len(rules()) > 10


def test_panels_stand_side_by_side() -> None:
    board = json.loads((FOLDER / "dashboard.json").read_text())
    places = [panel["gridPos"] for panel in board["panels"]]
    taken = [(x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not installed")


@needs_promtool
def test_prometheus_takes_the_rules() -> None:
    promtool("check", "rules", FOLDER / "alerts.yaml")


FIRED = {
    "RaygroveServerDown": {'up{job="raygrove"}': "0x60"},
    "RaygroveRequestsFail": {
        'raygrove_web_requests_total{operation="POST /run",status="200"}': "0+60x60",
        'raygrove_web_requests_total{operation="POST /run",status="503"}': "0+6x60",
    },
    "RaygroveTurnEndsOwed": {'raygrove_session_ends_owed{app="desk"}': "1x60"},
    "RaygroveNothingIsStored": {
        'raygrove_runner_running{app="desk"}': "3x60",
        'raygrove_session_commits_total{app="desk"}': "700x60",
    },
    "RaygroveTurnsWait": {'raygrove_runner_waiting{app="desk"}': "5000x60"},
    "RaygroveTurnsRefused": {'raygrove_web_requests_total{operation="POST /run",status="429"}': "0+600x60"},
    "RaygroveAgentsSilent": {'raygrove_runner_silent{app="desk"}': "1x60"},
    "RaygroveThreadsLeft": {'raygrove_agents_threads_left{app="desk"}': "21x60"},
    "RaygroveProcessesReplaced": {'raygrove_runner_replaced_total{app="desk"}': "0x30 1x30"},
    "RaygroveProcessesFull": {'raygrove_runner_hosts{app="desk"}': "8x60", 'raygrove_runner_max_hosts{app="desk"}': "8x60"},
    "RaygroveActorRestarted": {
        'raygrove_session_turns_total{app="desk"}': "900x55 0x5",
        'raygrove_runner_turns_total{app="desk"}': "900x60",
    },
    "RaygroveDrainsForLong": {'raygrove_runner_draining{app="desk"}': "1x60"},
    "RaygroveModelQueue": {'raygrove_model_waiting{app="desk",model="gemini"}': "101x60"},
    "RaygroveModelRetries": {
        'raygrove_model_granted_total{app="desk",model="gemini"}': "0+60x60",
        'raygrove_model_retried_total{app="desk",model="gemini"}': "0+9x60",
    },
    "RaygroveTurnsFail": {
        'raygrove_turns_ended_total{app="desk",agent="root",outcome="finished"}': "0+60x60",
        'raygrove_turns_ended_total{app="desk",agent="root",outcome="paused"}': "0+600x60",
        'raygrove_turns_ended_total{app="desk",agent="billing",outcome="failed",error_type="KeyError"}': "0+6x60",
    },
    "RaygroveModelFails": {
        'raygrove_model_calls_total{app="desk",agent="root",model="gemini"}': "0+60x60",
        'raygrove_model_calls_total{app="desk",agent="root",model="gemini",error_type="ModelServiceError"}': "0+9x60",
        'raygrove_model_calls_total{app="desk",agent="root",model="other"}': "0+60x60",
    },
    "RaygroveToolFails": {
        'raygrove_tool_calls_total{app="desk",agent="root",tool="pay",outcome="ok"}': "0+3x60",
        'raygrove_tool_calls_total{app="desk",agent="root",tool="pay",outcome="failed"}': "0+2x60",
        'raygrove_tool_calls_total{app="desk",agent="root",tool="look_up",outcome="ok"}': "0+9x60",
    },
    "RaygroveProcessesLost": {'raygrove_runner_lost_total{app="desk"}': "0x50 5x10"},
    "RaygroveSchedulesMissed": {'raygrove_schedule_times_total{app="desk",outcome="missed"}': "0x30 1x30"},
    "RaygroveSchedulesLate": {
        'raygrove_schedule_lateness_seconds_bucket{app="desk",outcome="made",le="40.96"}': "0x60",
        'raygrove_schedule_lateness_seconds_bucket{app="desk",outcome="made",le="81.92"}': "0+10x60",
        'raygrove_schedule_lateness_seconds_bucket{app="desk",outcome="made",le="+Inf"}': "0+10x60",
    },
}
"""Of each alert figures of an hour, one a minute, at whose end it is on."""


def test_each_alert_has_figures_at_which_it_is_on() -> None:
    assert [rule["alert"] for rule in rules()] == list(FIRED)


@needs_promtool
def test_prometheus_has_each_alert_on_at_its_figures_and_at_no_others(tmp_path: Path) -> None:
    tests = []
    for name, series in FIRED.items():
        figures = [{"series": each, "values": values} for each, values in series.items()]
        asked = 'count by (alertname) (ALERTS{alertstate="firing"})'
        samples = [{"labels": f'{{alertname="{name}"}}', "value": 1}]
        expected = [{"expr": asked, "eval_time": "59m", "exp_samples": samples}]
        tests.append({"name": name, "interval": "1m", "input_series": figures, "promql_expr_test": expected})
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yaml")], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
