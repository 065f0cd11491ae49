"""Which actors of which app are on nodes that drain."""

from __future__ import annotations

import pytest

from runtime.cluster import deployments
from runtime.cluster.deployments import on_draining_nodes
from runtime.cluster.ray.control_service import ActorRecord
from runtime.cluster.rules.nodes import DrainNotice, Node

STAYING, ENDING = Node("n1", {}, {}, "1", "10.0.0.1"), Node("n2", {}, {}, "2", "10.0.0.2", DrainNotice(None))
ACTORS = [
    ActorRecord("raygrove", "support/session", node=STAYING.address),
    ActorRecord("raygrove", "support/host/3", node=ENDING.address),
    ActorRecord("raygrove", "billing/runner", node=ENDING.address),
    ActorRecord("other", "no_app", node=ENDING.address),
]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [([STAYING, ENDING], {"support": ["host/3"], "billing": ["runner"]}), ([STAYING], {})],
)
def test_they_are_listed_by_app(monkeypatch: pytest.MonkeyPatch, nodes: list[Node], expected: dict[str, list[str]]) -> None:
    monkeypatch.setattr(deployments, "cluster_nodes", lambda: tuple(nodes))
    monkeypatch.setattr(deployments, "present_actors", lambda address: ACTORS)
    assert on_draining_nodes("10.0.0.1:6379") == expected
