"""A program: turns run, and the node's metrics are read over HTTP. Run by test_ray_metrics.py in a process of its own.

It prints what the endpoint has, summed over processes, and beside it what the statistics and the log say.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import defaultdict
from pathlib import Path
from urllib.request import urlopen

import ray

from actors import LlmAgent, tool
from actors.layers.limiter.limits import ModelLimits
from actors.testing import PatternModel
from runtime.settings import Settings
from tests.support.runtimes import Deploy, run_turn

TURNS = 5
PATIENCE_S = 40.0
INTERVAL = "RAY_metrics_report_interval_ms"
"""Environment variable: how often Ray hands its metrics on, in milliseconds."""

LINE = re.compile(r"ray_((?:raygrove|gen_ai)_\w+)\{(.*)\} (\S+)")


@tool
def look(what: str) -> dict[str, str]:
    """Look something up."""
    return {"what": what}


def endpoint() -> str:
    """The node's metrics, as Prometheus gets them."""
    (node,) = ray.nodes()  # type: ignore[no-untyped-call]
    with urlopen(f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def exported() -> tuple[dict[str, float], set[str]]:
    """Sums of our samples over all processes, by name and `le`; and the actors that they come from."""
    sums: defaultdict[str, float] = defaultdict(float)
    actors: set[str] = set()
    for name, labels, value in LINE.findall(endpoint()):
        given = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        assert given["app"] == "test", labels
        actors.add(re.sub(r"(host/).*", r"\1", given["actor"]))
        extra = [given[each] for each in ("gen_ai_tool_name", "le") if each in given]
        sums["/".join([name, *extra])] += float(value)
    return sums, actors


def main(folder: Path) -> None:
    os.environ[INTERVAL] = "1000"
    answering = PatternModel([("tool:look", "seen")], default={"call": "look", "args": {"what": "it"}})
    settings = Settings(max_live_agents=1, model_limits={"PatternModel": ModelLimits(max_concurrency=4)}, log_to_driver=False)
    with Deploy("ray", folder)(LlmAgent(name="desk", model=answering, tools=[look]), settings=settings) as rt:
        for number in range(TURNS):
            run_turn(rt, "go", session_id=f"s{number}")
        figures = rt.statistics()
        wanted = {
            "raygrove_session_turns_total": figures.session.counts["turns"],
            "raygrove_session_events_total": figures.session.counts["events"],
            "raygrove_runner_turns_total": figures.runner.counts["turns"],
            "raygrove_runner_hosts": figures.runner.counts["hosts"],
            "raygrove_agents_live": len(figures.agents),
            "raygrove_model_granted_total": figures.models["PatternModel"]["granted"],
            "gen_ai_workflow_duration_seconds_count_total": TURNS,
            "gen_ai_invoke_agent_duration_seconds_count_total": TURNS,
            "gen_ai_client_operation_duration_seconds_count_total": 2 * TURNS,
            "gen_ai_execute_tool_duration_seconds_count_total/look": TURNS,
            "gen_ai_invoke_agent_inference_calls_bucket_total/1": 0,
            "gen_ai_invoke_agent_inference_calls_bucket_total/2": TURNS,
            "gen_ai_invoke_agent_inference_calls_bucket_total/+Inf": TURNS,
            "gen_ai_invoke_agent_inference_calls_sum_total": 2 * TURNS,
        }
        until_s = time.monotonic() + PATIENCE_S
        while True:
            sums, actors = exported()
            got = {name: sums[name] for name in wanted}
            if got == wanted or time.monotonic() > until_s:
                break
            time.sleep(0.2)
        print("RESULT turns", figures.session.counts["turns"])
        print("RESULT wrong", {name: (got[name], wanted[name]) for name in wanted if got[name] != wanted[name]})
        print("RESULT actors", *sorted(actors))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
