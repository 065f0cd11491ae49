"""Clusters of several nodes, in programs of their own: nodes join, drain and die, one behind a firewall, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.nodes.autoscaled import end_processes_of
from tests.support.nodes.node_programs import open_folder, run_program
from tests.support.nodes.three_nodes_program import RUNNERS
from tests.support.sharded_runtimes import own_tables


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.mark.full
@pytest.mark.timeout(200)
def test_a_turn_is_answered_although_the_node_dies_on_which_it_ran(folder: Path, server: str) -> None:
    told, log = run_program("nodes.two_nodes", folder, own_tables(server), timeout_s=180)
    assert told == [
        "said [('first', 'noted'), ('second', 'answered')]",
        "seqs [1, 2, 3, 4, 5, 6, 7]",
        "notes ['once']",
        "moved True",
    ], log


@pytest.mark.full
@pytest.mark.timeout(200)
def test_a_node_that_joins_works_and_one_that_drains_is_left_while_turns_go_on(folder: Path) -> None:
    told, log = run_program("nodes.breathing_nodes", folder, timeout_s=180)
    assert told == [
        "limit 8",
        "the head has no agent True",
        "limit 16",
        "the new node has its share True",
        "it is left before its deadline True",
        "limit 8",
        "nothing was lost True",
        "wrong answers []",
    ], log


LEAVE = ["runner leaves", "runner stays on", "session leaves", "session stays on"]


@pytest.mark.soak
@pytest.mark.timeout(200)
@pytest.mark.parametrize("has_standbys", [False, True])
def test_session_actor_and_runner_leave_a_node_that_drains_as_soon_as_another_one_has_room(
    folder: Path, server: str, has_standbys: bool
) -> None:
    told, log = run_program("nodes.leaving", folder, has_standbys, own_tables(server), timeout_s=180)
    said = [*LEAVE, "session-standby leaves", "session-standby stays on", "standby leaves", "standby stays on"]
    listed = f"listed {sorted(['runner', 'session', *(['session-standby', 'standby'] if has_standbys else [])])}"
    expected = ["wrong []", f"told {said if has_standbys else LEAVE}", "wrong after the end of the node []"]
    assert told == ["all are there at first True", listed, *expected], log


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_a_session_actor_stays_where_the_file_of_its_store_is(folder: Path) -> None:
    told, log = run_program("nodes.leaving", folder, False, f"sqlite:///{folder}/sessions.db", timeout_s=180)
    said = ["runner leaves", "runner stays on", "session stays on"]
    expected = ["wrong []", f"told {said}", "wrong after the end of the node []"]
    assert told == ["all are there at first True", "listed ['runner', 'session']", *expected], log


@pytest.mark.soak
@pytest.mark.timeout(200)
@pytest.mark.parametrize(("who", "is_file"), [("runner", True), ("session", False), ("session", True)])
def test_a_standby_goes_on_with_the_turn_on_another_node_unless_the_file_of_its_store_is_here(
    folder: Path, server: str, who: str, is_file: bool
) -> None:
    store = f"sqlite:///{folder}/sessions.db" if is_file else server
    told, log = run_program("nodes.standby", folder, who, store, timeout_s=180)
    moves = who == "runner" or not is_file
    assert told == ["said [('root', 'answered')]", "took over True", f"on another node {moves}"], log


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("experts", "sessions", "turns"), [(2, 200, 1), (8, 200, 20)])
def test_all_turns_are_answered_although_nodes_come_and_go(
    folder: Path, server: str, experts: int, sessions: int, turns: int
) -> None:
    told, log = run_program("nodes.three_nodes", folder, own_tables(server), experts, sessions, turns, timeout_s=580)
    assert told == [
        f"each Runner has its own actors of all agents {[RUNNERS] * (experts + 1)}",
        "on each node are agents True",
        "on each node are Session actors True",
        "Runners are on different nodes True",
        "all live on the nodes that are there True",
        "the new node is used True",
        "wrong answers []",
        "flaws of logs []",
        "listed True",
    ], log


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_a_node_behind_a_firewall_is_reached_by_ray(folder: Path) -> None:
    told, log = run_program("nodes.firewall", folder, timeout_s=100)
    assert told == [
        "wrong answers []",
        "behind the firewall 3 not reached [] reached []",
        "why {'it does not answer (no answer in 5 s)'}",
        "logs with gaps [] 20",
    ], log


# By hand: where the machine has much else to do, nodes take a minute to start.
@pytest.mark.soak
@pytest.mark.timeout(320)
def test_a_busy_agent_gets_nodes_and_they_are_given_back(folder: Path) -> None:
    try:
        told, log = run_program("nodes.autoscaled", folder, timeout_s=300)
    finally:
        end_processes_of(folder)
    assert told == [
        "nodes for one turn 1",
        "nodes under load 4",
        "each node has half of its share at least True",
        "nodes at rest 0",
        "nodes for one turn 1",
    ], log


DESK = Path(__file__).parents[3] / "examples" / "cluster" / "desk.py"


def run(address: str, stores: dict[str, str], *arguments: str) -> str:
    environment = os.environ | stores | {"RAY_ADDRESS": address, "RAYGROVE_NAMESPACE": Settings().namespace}
    for key in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        environment.pop(key, None)
    return subprocess.run(
        [sys.executable, DESK, *arguments], env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_the_desk_stays_when_its_program_has_ended(local_ray: str, server: str, tmp_path: Path) -> None:
    stores = {"DATABASE_URL": server, "ARTIFACTS_URL": f"file://{tmp_path}/artifacts"}
    assert run(local_ray, stores, "start") == "desk runs\n"
    assert run(local_ray, stores, "start") == "desk runs already\n"
    with Runtime.connect("desk") as rt:
        events = list(rt.run(user_id="ada", session_id="s1", message="Where is my order 42?"))
        assert [event.author for event in events if event.text] == ["orders"]
        assert "It is on its way." in events[-1].text
        # What a program may do from elsewhere as well.
        assert run(local_ray, stores, "ask", "Where is my order 43?") == "orders: It is on its way.\n"
        rt.sessions.delete(user_id="ada", session_id="s1")
        rt.shutdown()
