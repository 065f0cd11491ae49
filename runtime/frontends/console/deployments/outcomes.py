"""How commands end that follow a turn of a deployment."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from actors.layers.listing.messages import PendingCall
from actors.messages.protocol.outcomes import Paused
from runtime.driver.turns.turn import Turn
from runtime.frontends.console.apps.questions import question
from runtime.frontends.console.apps.run import INTERRUPTED, PAUSED
from runtime.frontends.console.apps.showing import show


def follow(turn: Turn, name: str, *, json: bool, verbose: bool) -> int:
    """Show a turn to its end; Ctrl-C leaves it.

    Returns:
        The exit code of the command.

    Raises:
        RaygroveError: the turn failed.
    """
    try:
        show(turn, json=json, verbose=verbose)
        if not isinstance(turn.result().outcome, Paused):
            return 0
        pending = turn.pending
    except KeyboardInterrupt:
        print("left: the turn goes on", file=sys.stderr)
        return INTERRUPTED
    for line in how_to_answer(pending, name):
        print(line, file=sys.stderr)
    return PAUSED


def how_to_answer(calls: Sequence[PendingCall], name: str) -> list[str]:
    """The question for which a paused turn waits, and the commands that answer it."""
    lines = [] if calls else ["paused: an agent waits for the user's next message in this session"]
    for call in calls:
        wants, value = ("must be confirmed", "yes") if call.is_confirmation else ("waits for its result", "{}")
        lines.append(f"paused: {question(call)} of agent {call.agent!r} {wants}. Answer it with")
        words = ["raygrove", "answer", name, call.session_id, call.call_id, value, "--user", call.user_id]
        lines.append(f"  {shlex.join(words)}")
    return lines
