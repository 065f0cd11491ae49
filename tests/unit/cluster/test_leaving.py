"""Which processes leave nodes that are about to end, and that a Runner has them leave and says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.exceptions import ActorUnavailableError

from actors.interfaces.telemetry import KIND
from runtime.cluster import deployments
from runtime.cluster.cluster_watch import ClusterWatch
from runtime.cluster.core import departures
from runtime.cluster.core.actors import core_processes
from runtime.cluster.core.departures import Departures
from runtime.cluster.deployments import on_draining_nodes
from runtime.cluster.ray.control_service import ActorRecord
from runtime.cluster.rules.leaving import LAST_S, CoreProcess, Whereabouts, leaving
from runtime.cluster.rules.nodes import DrainNotice, Node
from runtime.settings import Settings
from tests.support.virtual_time import run_in_virtual_time

NOW_S = 1_000.0
SOON: Mapping[str, float | None] = {"n1": NOW_S + LAST_S - 1}
LATER: Mapping[str, float | None] = {"n1": NOW_S + LAST_S + 60}


def session(node: str = "n1", **rest: Any) -> CoreProcess:
    return CoreProcess("session", "session", is_session=True, node=node, leads=True)._replace(**rest)


def runner(node: str = "n1", **rest: Any) -> CoreProcess:
    return CoreProcess("runner", "runner", is_session=False, node=node, leads=True)._replace(**rest)


def standby(of: CoreProcess, node: str, *, is_ready: bool = True) -> CoreProcess:
    return of._replace(name=f"{of.name}-standby", node=node, leads=False, is_ready=is_ready)


def left(*processes: CoreProcess, ends_s: Mapping[str, float | None] | None = None, has_room: bool = True) -> set[str]:
    return leaving(processes, LATER if ends_s is None else ends_s, has_room=has_room, now_s=NOW_S)


def test_the_runner_leaves_when_the_session_actor_has_left() -> None:
    assert left(session(), runner()) == {"session"}
    assert left(session(node="", leads=False), runner()) == set()
    assert left(session(node="n2"), runner()) == {"runner"}


def test_those_that_are_elsewhere_stay() -> None:
    assert left(session("n2"), runner("n2")) == set()


@pytest.mark.parametrize("ends_s", [LATER, SOON])
def test_nothing_leaves_while_no_other_node_has_room(ends_s: Mapping[str, float | None]) -> None:
    assert left(session(), runner(), ends_s=ends_s, has_room=False) == set()


def test_a_session_actor_stays_with_the_file_of_its_store_and_the_runner_does_not_wait_for_it() -> None:
    assert left(session(bound_to="sqlite:///a.db"), runner()) == {"runner"}
    assert left(session(bound_to="sqlite:///a.db"), ends_s=SOON) == set()


def test_what_leads_waits_for_a_standby_that_is_ready_elsewhere() -> None:
    assert left(session(), standby(session(), "n1")) == {"session-standby"}
    assert left(session(), standby(session(), "", is_ready=False)) == set()
    assert left(session(), standby(session(), "n2", is_ready=False)) == set()
    assert left(session(), standby(session(), "n2")) == {"session"}


def test_those_without_standbys_leave_one_after_the_other() -> None:
    second = session(name="second", actor="second")
    assert left(session(), second) == {"session"}
    assert left(session(node="", leads=False), second) == set()
    assert left(session(node="n2"), second) == {"second"}
    assert left(session(), second, ends_s=SOON) == {"session", "second"}


def test_shortly_before_the_end_nothing_is_waited_for() -> None:
    assert left(session(), standby(session(), "n2", is_ready=False), runner(), ends_s=SOON) == {"session", "runner"}


def test_a_node_without_a_deadline_is_never_late() -> None:
    assert left(session(), standby(session(), ""), runner(), ends_s={"n1": None}) == set()


NODES = ("n1", "n2", "n3")
placed = st.sampled_from(NODES)


@given(
    st.lists(st.tuples(placed, placed, st.booleans()), min_size=1, max_size=3),
    st.lists(st.tuples(placed, placed, st.booleans()), min_size=1, max_size=3),
    st.integers(1, 5),
)
def test_all_leave_one_process_of_an_actor_at_a_time(
    sessions: Sequence[tuple[str, str, bool]], runners: Sequence[tuple[str, str, bool]], starts_in: int
) -> None:
    """Nodes n1 and n2 end without a deadline; a process that left is there again, on n3, so many looks later."""
    processes: dict[str, CoreProcess] = {}
    for kind, given_ones in (("session", sessions), ("runner", runners)):
        for number, (first, second, has_standby) in enumerate(given_ones):
            leader = CoreProcess(f"{kind}-{number}", f"{kind}-{number}", is_session=kind == "session", node=first, leads=True)
            processes[leader.name] = leader
            if has_standby:
                processes[f"{leader.name}-standby"] = standby(leader, second)
    back: dict[str, int] = {}
    for look in range(100):
        for name in [name for name, at in back.items() if at == look]:
            del back[name]
            alone = not any(each.leads for each in processes.values() if each.actor == processes[name].actor)
            processes[name] = processes[name]._replace(node="n3", leads=alone, is_ready=True)
        leave = leaving(list(processes.values()), {"n1": None, "n2": None}, has_room=True, now_s=NOW_S)
        for name in leave:
            was = processes[name]
            others = [each for each in processes.values() if each.actor == was.actor and each.name != name]
            assert all(each.node and each.name not in leave for each in others)
            if was.leads and not was.is_session:
                assert all(each.node == "n3" for each in processes.values() if each.is_session and each.leads)
            processes[name] = was._replace(node="", leads=False, is_ready=False)
            if was.leads and others:
                processes[others[0].name] = others[0]._replace(leads=True)
            back[name] = look + starts_in
    assert {each.node for each in processes.values()} == {"n3"}


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
