"""The node of the Session actor and the Runner is drained."""

from __future__ import annotations

import pytest

from tests.support.nodes.drained_node_program import INPUTS
from tests.support.nodes.node_programs import open_folder, run_program


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_a_map_is_answered_when_the_node_is_preempted_and_dies() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.drained_node", folder, timeout_s=180)
    assert told == [f"answers {INPUTS}", "errors []", "moved True True"], log


LEAVE = ["runner leaves", "runner stays on", "session leaves", "session stays on"]


@pytest.mark.soak
@pytest.mark.timeout(200)
@pytest.mark.parametrize("has_standbys", [False, True])
def test_session_actor_and_runner_leave_a_node_that_drains_as_soon_as_another_one_has_room(has_standbys: bool) -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.leaving", folder, has_standbys, "", timeout_s=180)
    said = [*LEAVE, "session-standby leaves", "session-standby stays on", "standby leaves", "standby stays on"]
    listed = f"listed {sorted(['runner', 'session', *(['session-standby', 'standby'] if has_standbys else [])])}"
    expected = ["wrong []", f"told {said if has_standbys else LEAVE}", "wrong after the end of the node []"]
    assert told == ["all are there at first True", listed, *expected], log


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_a_session_actor_stays_where_the_file_of_its_store_is() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.leaving", folder, False, f"sqlite:///{folder}/sessions.db", timeout_s=180)
    said = ["runner leaves", "runner stays on", "session stays on"]
    expected = ["wrong []", f"told {said}", "wrong after the end of the node []"]
    assert told == ["all are there at first True", "listed ['runner', 'session']", *expected], log
