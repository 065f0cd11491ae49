"""The peers: the environment of each, and how its report is merged with our own figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tests.benchmarks import storage, throughput, turns
from tests.benchmarks.environments import Environment
from tests.benchmarks.figures import Figure
from tests.benchmarks.peers.peer import Report, Request
from tests.benchmarks.plan import Plan

PEERS: Mapping[str, tuple[str, str]] = {
    "google-adk": ("google-adk", "google_adk"),
    "LangGraph": ("langgraph", "langgraph"),
    "OpenAI Agents SDK": ("openai-agents", "openai_agents"),
}
"""Environment and module, by the peer's name in reports."""


def prepare() -> None:
    """Make the environments of all peers, if they are not there.

    Raises:
        subprocess.CalledProcessError: a peer cannot be installed.
    """
    for environment, _ in PEERS.values():
        Environment(environment).make()


def measure(plan: Plan, peer: str) -> Report:
    """Run a peer.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    environment, module = PEERS[peer]
    asked = msgspec.json.encode(request(plan)).decode()
    printed = Environment(environment).run(f"tests.benchmarks.peers.{module}", asked)
    return msgspec.json.decode(printed.splitlines()[-1], type=Report)


def request(plan: Plan) -> Request:
    """What of our own figures peers are asked for. Their histories are counted in turns."""
    return Request(
        histories=[events // turns.EVENTS_A_TURN for events in plan.histories if events <= plan.peer_events],
        turns=plan.peer_turns,
        sessions=plan.concurrency,
        load=plan.peer_load,
        stored=plan.stored,
    )


def beside(figures: Sequence[Figure], reports: Mapping[str, Report]) -> list[Figure]:
    """Our figures, each with the peers' figures for the same measurement."""
    return [msgspec.structs.replace(figure, peers=_peers(figure, reports)) for figure in figures]


def _peers(figure: Figure, reports: Mapping[str, Report]) -> dict[str, float]:
    found = {peer: values(report).get((figure.benchmark, figure.at or 0)) for peer, report in reports.items()}
    return {peer: value for peer, value in found.items() if value is not None}


def values(report: Report) -> dict[tuple[str, int], float]:
    """What a peer reports, by the benchmark of ours and what its figures depend on."""
    return {
        **{(turns.NAME, turns.EVENTS_A_TURN * history): value for history, value in report.turn_ms.items()},
        **{(throughput.NAME, sessions): value for sessions, value in report.rate.items()},
        (storage.NAME, report.stored): report.stored_bytes,
    }
