"""An actor and its standby are on two nodes, and the actor is killed."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_the_standby_of_a_runner_on_another_node_goes_on_with_the_turn() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.standby", folder, "runner", f"sqlite:///{folder}/sessions.db", timeout_s=180)
    assert told == ["said [('root', 'answered')]", "took over True", "on another node True"], log


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_the_standby_of_a_session_actor_on_another_node_goes_on_with_the_turn(server: str) -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.standby", folder, "session", server, timeout_s=180)
    assert told == ["said [('root', 'answered')]", "took over True", "on another node True"], log


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_the_standby_of_a_session_actor_is_where_the_file_of_its_store_is() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.standby", folder, "session", f"sqlite:///{folder}/sessions.db", timeout_s=180)
    assert told == ["said [('root', 'answered')]", "took over True", "on another node False"], log
