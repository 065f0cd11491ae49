"""Figures in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from runtime.driver.statistics import RuntimeStatistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

GROWING = frozenset(
    {
        *("turns", "events", "partials", "commits", "polls"),
        *("invocations", "transfers", "activations", "passivations", "shared", "replaced"),
        *("granted", "retried", "retries_refused"),
    }
)
"""Figures that only grow, until their actor is started again; all others go up and down."""


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
        for name, labels, value in _samples(figures):
            told = ",".join(f'{label}="{_escaped(text)}"' for label, text in {"app": app, **labels}.items())
            families.setdefault(name, []).append(f"{name}{{{told}}} {value}")
    lines = []
    for name, samples in families.items():
        lines += [f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}", *samples]
    return "\n".join(lines) + "\n"


def _samples(figures: RuntimeStatistics) -> Iterator[tuple[str, dict[str, str], int]]:
    for kind, counts in (("session", figures.session.counts), ("runner", figures.runner.counts)):
        for name, value in counts.items():
            yield _name(kind, name), {}, value
    agents: Counter[str] = Counter()
    for agent in figures.agents.values():
        agents.update(agent.counts)
    yield "raygrove_agents_live", {}, len(figures.agents)
    yield "raygrove_agent_processes", {}, len(figures.processes)
    for name, value in agents.items():
        # The sum over the agents that live shrinks when one leaves its process.
        yield f"raygrove_agents_{name}", {}, value
    for model, calls in figures.models.items():
        for name, value in calls.items():
            yield _name("model", name), {"model": model}, value


def _name(kind: str, figure: str) -> str:
    return f"raygrove_{kind}_{figure}" + ("_total" if figure in GROWING else "")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
