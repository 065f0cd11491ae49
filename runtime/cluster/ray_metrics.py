"""The figures and measures of a process in Ray's own metrics, where its node collects any: with `ray[default]`.

Ray's histograms take one value at a time, at six microseconds each, and report sums as the middles of buckets. So measures are
counted here, and handed on as counters with the label `le`, of which Prometheus makes quantiles just as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from actors.interfaces.telemetry import Telemetry
from runtime.cluster.ray.nodes import collects_metrics, metrics_interval_s
from runtime.observability.catalogue import METRICS, Measure
from runtime.observability.figures import Figure
from runtime.observability.telemetry.measured import MeasuredTelemetry
from runtime.settings import Settings

if TYPE_CHECKING:
    # Imported where the first value is handed on: most processes never do.
    from ray.util.metrics import Counter, Gauge


class RayMetrics:
    """What a process hands on to Ray's metrics; nothing where its node collects none, or the setting `ray_metrics` is off.

    Args:
        app_name, actor: the labels `app` and `actor`.
    """

    def __init__(self, settings: Settings, app_name: str, actor: str) -> None:
        self.is_on = settings.ray_metrics and collects_metrics()
        self._labels = {"app": app_name, "actor": actor}
        self._measures = METRICS.each(Measure)
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        self._told: dict[tuple[str, tuple[str, ...]], int] = {}

    def telemetry(self, inner: Telemetry) -> Telemetry:
        """The telemetry of this process, measured if Ray collects metrics."""
        return MeasuredTelemetry(inner, self._measures) if self.is_on else inner

    def start(self, figures: Callable[[], Iterable[Figure]]) -> None:
        """Hand on what is measured, and the figures of the process, from now on. The running event loop does it.

        Ray drops a gauge that was not set for two of its intervals, so the gauges are set twice in each.
        """
        if self.is_on:
            interval_s = max(1.0, metrics_interval_s()) / 2
            asyncio.get_running_loop().call_later(interval_s, self._tell, figures, interval_s)

    def _tell(self, figures: Callable[[], Iterable[Figure]], interval_s: float) -> None:
        asyncio.get_running_loop().call_later(interval_s, self._tell, figures, interval_s)
        for figure in figures():
            self._tell_figure(figure)
        for measure in self._measures.all():
            self._tell_measure(measure)

    def _tell_figure(self, figure: Figure) -> None:
        labels = {**self._labels, **figure.labels}
        if not figure.only_grows:
            self._gauge(figure.name, labels, figure.value)
            return
        place = figure.name, tuple(labels.values())
        self._count(figure.name, "", labels, figure.value - self._told.get(place, 0))
        self._told[place] = figure.value

    def _tell_measure(self, measure: Measure) -> None:
        bounds = [*(f"{bound:.12g}" for bound in measure.bounds), "+Inf"]
        for counted in measure.take_counted():
            labels = {**self._labels, **dict(zip(measure.labels, counted.labels, strict=True))}
            number = 0
            for bound, more in zip(bounds, counted.buckets, strict=True):
                number += more
                self._count(f"{measure.name}_bucket", measure.what, {**labels, "le": bound}, number)
            self._count(f"{measure.name}_count", measure.what, labels, number)
            self._count(f"{measure.name}_sum", measure.what, labels, counted.total)

    def _gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        from ray.util.metrics import Gauge

        if (gauge := self._gauges.get(name)) is None:
            gauge = self._gauges[name] = Gauge(name, tag_keys=tuple(labels))
        gauge.set(value, dict(labels))

    def _count(self, name: str, what: str, labels: Mapping[str, str], more: float) -> None:
        """Count more, or nothing: Ray takes no zero."""
        from ray.util.metrics import Counter

        if more <= 0:
            return
        if (counter := self._counters.get(name)) is None:
            counter = self._counters[name] = Counter(name, what, tuple(labels))
        counter.inc(more, dict(labels))
