"""Ten minutes of a cluster whose nodes come, drain, are preempted and are lost, under turns and maps: nothing is lost or fails.

`SOAK_SECONDS=120` takes two minutes instead, `SOAK_RATE=5` has five turns begin each second instead of 20, and with another
`SOAK_SEED` other things happen to other nodes.
"""

from __future__ import annotations

import json
import os

import pytest

from tests.support.machine.terminal import Tell
from tests.support.nodes.node_programs import open_folder, run_program
from tests.support.sharded_runtimes import own_tables

SECONDS, RATE = int(os.environ.get("SOAK_SECONDS", "600")), int(os.environ.get("SOAK_RATE", "20"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
INPUTS = 5_000 * SECONDS // 600
"""Of the map of each app: as many as it answers in that time."""

SETS_UP_S = 400
MOST_S = {"came": 5.0, "drained": 5.0, "preempted": 5.0, "stopped": 15.0, "lost": 15.0}
"""How long a turn may stand still, by what has happened to a node, on a quiet machine."""


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + SETS_UP_S)
def test_no_turn_is_lost_or_stands_long_while_nodes_come_and_go(server: str, tell: Tell) -> None:
    with open_folder() as folder:
        given = own_tables(server), SECONDS, RATE, INPUTS, SEED
        printed, log = run_program("nodes.breathing", folder, *given, timeout_s=SECONDS + SETS_UP_S - 10)
    tell(log)
    results = [json.loads(line) for line in printed]
    counts = [each for each in results if len(each) == 3]
    assert counts == [["stays", 0, 0], ["goes", 0, 0]], log
    pauses = [each for each in results if len(each) == 4]
    assert {kind for _, kind, *_ in pauses} >= {"preempted", "lost"}, log
    late = [each for each in pauses if each[2] > MOST_S.get(each[1], 5.0) * each[3]]
    assert not late, log
