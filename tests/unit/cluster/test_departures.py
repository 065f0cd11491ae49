"""A Runner has processes leave nodes that are about to end, and says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorUnavailableError

from actors.interfaces.telemetry import KIND
from runtime.cluster.cluster_watch import ClusterWatch
from runtime.cluster.core import departures
from runtime.cluster.core.actors import core_processes
from runtime.cluster.core.departures import Departures
from runtime.cluster.rules.leaving import Whereabouts
from runtime.cluster.rules.nodes import DrainNotice, Node
from runtime.settings import Settings
from tests.support.virtual_time import run_in_virtual_time

AWAY_S = 3.0
"""How long a process is away that leaves its node."""

ENDING, STAYING = Node("n1", {}, {}, "n1", "10.0.0.1", DrainNotice(None)), Node("n2", {}, {}, "n2", "10.0.0.2")


class Process:
    """Stands in for the handle of a process, which is started again on the node n2."""

    def __init__(self, left: list[str], name: str, bound_to: str = "") -> None:
        self._left = left
        self._name = name
        self._is = Whereabouts("n1", leads=True, bound_to=bound_to)
        self._back_s = 0.0
        self.whereabouts = SimpleNamespace(remote=self._tell)
        self.leave = SimpleNamespace(remote=self._leave)

    async def _tell(self) -> Whereabouts:
        if asyncio.get_running_loop().time() < self._back_s:
            raise ActorUnavailableError("it is away", None)
        return self._is

    def _leave(self, node: str) -> None:
        assert node == self._is.node
        self._left.append(self._name)
        self._is = self._is._replace(node="n2")
        self._back_s = asyncio.get_running_loop().time() + AWAY_S


def see_off(monkeypatch: pytest.MonkeyPatch, nodes: tuple[Node, ...], bound_to: Mapping[str, str], **given: Any) -> list[str]:
    """Have all leave that can, with these settings. Returns the names of those that have left, in order."""
    settings, left = Settings(**given), list[str]()
    names = [each.name for each in core_processes("app", settings, 1)]
    found = {name: Process(left, name, bound_to.get(name, "")) for name in names}
    monkeypatch.setattr(departures, "get_actor", lambda name, _: found[name])
    monkeypatch.setattr(departures, "free_nodes", lambda: [node for node in nodes if node.drain is None])

    async def at_once(function: Any, *args: Any) -> Any:
        return function(*args)

    # No time goes by while a thread works.
    monkeypatch.setattr(asyncio, "to_thread", at_once)

    async def begin() -> None:
        watch = ClusterWatch(lambda: nodes)
        Departures(core_processes("app", settings, 1), settings, watch).begin()
        watch.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    run_in_virtual_time(begin())
    return left


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Any:
    """What was said of nodes that drain."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if getattr(record, KIND, "") == "node drains"]


def test_the_session_actor_leaves_and_then_the_runner(monkeypatch: pytest.MonkeyPatch, told: Any) -> None:
    assert see_off(monkeypatch, (ENDING, STAYING), {}) == ["app/session", "app/runner"]
    assert told() == [
        "node 10.0.0.1 drains; on it: app/session, app/runner",
        "app/session leaves node 10.0.0.1, which drains",
        "app/runner leaves node 10.0.0.1, which drains",
    ]


def test_what_stays_is_said_once(monkeypatch: pytest.MonkeyPatch, told: Any) -> None:
    assert see_off(monkeypatch, (ENDING, STAYING), {"app/session": "its store"}) == ["app/runner"]
    assert told()[1] == "app/session stays on node 10.0.0.1, which drains: its store may be a file there"
    assert len(told()) == 3


def test_all_stay_while_there_is_no_other_node(monkeypatch: pytest.MonkeyPatch, told: Any) -> None:
    assert see_off(monkeypatch, (ENDING,), {}) == []
    assert told()[1] == (
        "app/session stays on node 10.0.0.1, which drains until another node has room: it asks for nothing, and there is no node"
    )
    assert len(told()) == 3


def test_all_stay_while_no_other_node_has_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, labelled = {"tier": "core"}, STAYING._replace(labels={"tier": "core"})
    assert see_off(monkeypatch, (ENDING, STAYING), {}, core_label_selector=labels) == []
    assert see_off(monkeypatch, (ENDING, labelled), {}, core_label_selector=labels) == ["app/session", "app/runner"]


def test_nothing_is_said_or_asked_while_no_node_drains(monkeypatch: pytest.MonkeyPatch, told: Any) -> None:
    assert see_off(monkeypatch, (STAYING, Node("n1", {}, {}, "n1")), {}) == []
    assert told() == []
