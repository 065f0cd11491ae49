"""Figures in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.driver.statistics import RuntimeStatistics
from runtime.observability.figures import Figure, counted, of_agents, of_counts, of_models, timed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(apps: Mapping[str, RuntimeStatistics], requests: Mapping[tuple[str, int], int], streams: int) -> str:
    """The figures of apps.

    Those of agents are sums over the agents that live, since a tree may have thousands: each agent's are in the statistics.

    Args:
        apps: the figures by the names of apps.
        requests: how many the server has answered, by method and path, and by status.
        streams: how many streams are open.
    """
    families: dict[str, list[str]] = {"raygrove_web_streams": [f"raygrove_web_streams {streams}"]}
    families["raygrove_web_requests_total"] = [
        f'raygrove_web_requests_total{{operation="{_escaped(name)}",status="{status}"}} {number}'
        for (name, status), number in sorted(requests.items())
    ]
    for app, figures in apps.items():
        for figure in _figures(figures):
            name = figure.name + ("_total" if figure.only_grows else "")
            told = _labels({"app": app, **figure.labels})
            families.setdefault(name, []).append(f"{name}{{{told}}} {figure.value}")
    lines = []
    for name, samples in families.items():
        lines += [f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}", *samples]
    for name, samples in _histograms(apps).items():
        lines += [f"# TYPE {name} histogram", *samples]
    return "\n".join(lines) + "\n"


def _histograms(apps: Mapping[str, RuntimeStatistics]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for app, figures in apps.items():
        for each in timed(figures.session.tallies):
            told = _labels({"app": app, **each.labels})
            samples = families.setdefault(each.name, [])
            samples += [f'{each.name}_bucket{{{told},le="{bound}"}} {count}' for bound, count in each.up_to]
            samples += [f"{each.name}_sum{{{told}}} {each.total_s:.9g}", f"{each.name}_count{{{told}}} {each.number}"]
    return families


def _figures(figures: RuntimeStatistics) -> Iterator[Figure]:
    yield from of_counts("session", figures.session.counts)
    yield from of_counts("runner", figures.runner.counts)
    yield from of_agents(figures.agents.values(), len(figures.processes))
    yield from of_models(figures.models)
    yield from counted(figures.session.tallies)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
