"""The catalogue of metrics: names, labels and buckets, and the page on telemetry names each."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.observability.catalogue import METRICS, Measure, Metric

PAGE = Path(__file__).parents[3] / "docs/telemetry.md"


def test_names_of_prometheus_end_with_the_unit() -> None:
    assert METRICS.turn.prometheus_name == "gen_ai_workflow_duration_seconds"
    assert METRICS.tokens.prometheus_name == "gen_ai_client_token_usage"
    assert Measure(METRICS.model_call).labels == ("gen_ai_request_model", "error_type")


def test_a_value_that_equals_a_bound_is_in_its_bucket() -> None:
    measure = Measure(Metric("m", "s", "", (1.0, 2.0), ("kind",)))
    for value in (0.5, 1.0, 1.5, 3.0):
        measure.add(value, "a")
    measure.add(2.0, "b")
    assert list(measure.take_counted()) == [(("a",), [2, 1, 1], 6.0), (("b",), [0, 1, 0], 2.0)]
    assert list(measure.take_counted()) == []


def test_the_page_on_telemetry_has_each_histogram() -> None:
    rows = re.findall(
        r"^\| `((?:gen_ai|raygrove)\.[a-z_.]+)` \| (\S+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == [(each.name, each.unit.strip("{}"), each.what.rstrip(".")) for each in METRICS.all()]
