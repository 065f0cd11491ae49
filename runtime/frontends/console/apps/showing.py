"""Shows a turn as it goes on: its answer on the standard output, and what agents do besides on the standard error."""

from __future__ import annotations

import sys

from runtime.driver.turns.given import output_event
from runtime.driver.turns.turn import Turn
from runtime.frontends.console.apps.activity import activity_lines
from runtime.frontends.console.apps.answer_text import AnswerText
from runtime.frontends.console.apps.terminal import Terminal


def show(turn: Turn, *, json: bool, verbose: bool) -> None:
    """Print a turn to its end.

    Args:
        json: print events instead of texts.
        verbose: print what agents do besides speaking.

    Raises:
        RaygroveError: the turn failed.
    """
    if json:
        for event in turn:
            print(event.to_json(), flush=True)
        return
    out, error = Terminal(), Terminal(sys.stderr)
    text = AnswerText(lambda author: None, lambda piece: out.write(piece, end=""))
    try:
        for event in turn:
            if verbose:
                for line in activity_lines(event):
                    error.dim(line)
            text.add(event)
    finally:
        text.end_line()
    if output_event(turn.result().events) is not None:
        out.write(turn.result().text)
