"""Which turns fit what is looked for."""

from __future__ import annotations

import pytest

from actors.layers.listing.messages import ANY_TURN, TurnMatch
from actors.layers.listing.rules import fits
from actors.messages.turn_info import TurnInfo

FAILED = TurnInfo(
    user_id="ada",
    session_id="s1",
    invocation_id="import-17",
    state="failed",
    agent="clerk",
    error="AgentFailedError: agent 'clerk' failed: ConnectionError: no Connection",
    failed_tools=2,
)
IN_LINE = TurnInfo(user_id="ada", session_id="s1", invocation_id="e-2", state="waiting")


@pytest.mark.parametrize(
    ("wanted", "failed", "in_line"),
    [
        (ANY_TURN, True, True),
        (TurnMatch(agent="clerk"), True, False),
        (TurnMatch(agent="cler"), False, False),
        (TurnMatch(error="no connection"), True, False),
        (TurnMatch(error="time"), False, False),
        (TurnMatch(invocation="import-"), True, False),
        (TurnMatch(invocation="17"), False, False),
        (TurnMatch(agent="clerk", error="agentfailederror", invocation="import-17"), True, False),
        (TurnMatch(agent="clerk", error="other"), False, False),
        (TurnMatch(failed_tools=True), True, False),
    ],
)
def test_a_turn_fits_when_all_that_is_given_does(wanted: TurnMatch, failed: bool, in_line: bool) -> None:
    assert (fits(FAILED, wanted), fits(IN_LINE, wanted)) == (failed, in_line)
