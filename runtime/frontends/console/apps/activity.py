"""What agents do besides speaking, as lines: calls of tools, their results, transfers and errors."""

from __future__ import annotations

from collections.abc import Iterator

from actors.messages.event import Event
from actors.rules.routing.transfer import TRANSFER_TOOL
from runtime.frontends.console.event_lines import event_lines

MAX_LINE = 160
"""Characters of a line; the log has all of it."""

_MARKS = {"call": "→ ", "response": "← ", "error": "! "}


def activity_lines(event: Event) -> Iterator[str]:
    """One line for each call, response, transfer, change of a task, and error of a complete event."""
    if event.partial:
        return
    for kind, text in event_lines(event):
        if kind in ("text", "thought", "traceback", "data", "state"):
            continue
        if kind == "call" and text.startswith(f"{TRANSFER_TOOL}("):
            continue
        line = " ".join(text.split())
        if kind == "transfer":
            yield f"{event.author} → {event.actions.transfer_to_agent}"
        else:
            yield f"{event.author} {_MARKS.get(kind, '')}{line if len(line) <= MAX_LINE else line[:MAX_LINE] + '…'}"
