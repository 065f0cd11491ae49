"""The catalogue of metrics: every exporter has each histogram, with the same buckets, and the page on telemetry names it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from opentelemetry.metrics import Meter

from runtime.observability import catalogue
from runtime.observability.catalogue import HISTOGRAMS, Measure, Measures, Metric
from runtime.observability.telemetry.spans import Histograms

PAGE = Path(__file__).parents[3] / "docs/telemetry.md"


class Instruments:
    """A meter that notes what it is asked to make."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[str, str, Sequence[float]]] = {}

    def create_histogram(self, name: str, unit: str, what: str, *, explicit_bucket_boundaries_advisory: Sequence[float]) -> Any:
        assert name not in self.made
        self.made[name] = (unit, what, explicit_bucket_boundaries_advisory)
        return name


def test_all_constants_are_in_the_list_of_histograms() -> None:
    assert {id(each) for each in vars(catalogue).values() if isinstance(each, Metric)} == {id(each) for each in HISTOGRAMS}
    assert len({each.name for each in HISTOGRAMS}) == len(HISTOGRAMS) == 10


def test_opentelemetry_and_ray_have_each_histogram_with_the_same_buckets() -> None:
    meter = Instruments()
    Histograms(cast("Meter", meter))
    assert meter.made == {each.name: (each.unit, each.what, each.bounds) for each in HISTOGRAMS}
    counted = {measure.name: (measure.what, measure.bounds) for measure in Measures().all()}
    assert counted == {each.prometheus_name: (each.what, each.bounds) for each in HISTOGRAMS}


def test_names_of_prometheus_end_with_the_unit() -> None:
    assert catalogue.TURN.prometheus_name == "gen_ai_workflow_duration_seconds"
    assert catalogue.TOKENS.prometheus_name == "gen_ai_client_token_usage"
    assert Measure(catalogue.MODEL_CALL).labels == ("gen_ai_request_model", "error_type")


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
    assert rows == [(each.name, each.unit.strip("{}"), each.what.rstrip(".")) for each in HISTOGRAMS]
