"""Shows a turn as it goes on: its answer on the standard output, and what agents do besides on the standard error."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence

from actors.layers.listing.messages import PendingCall
from actors.messages.event import Event
from actors.messages.protocol.runs import Paused
from actors.rules.routing.branches import tool_root
from runtime.driver.turns.turn import Turn, output_event
from runtime.frontends.console.lines import activity_lines, question
from runtime.frontends.console.output import INTERRUPTED, PAUSED
from runtime.frontends.console.terminal import Terminal


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
    for line in _how_to_answer(pending, name):
        print(line, file=sys.stderr)
    return PAUSED


def _how_to_answer(calls: Sequence[PendingCall], name: str) -> list[str]:
    """The question for which a paused turn waits, and the commands that answer it."""
    lines = [] if calls else ["paused: an agent waits for the user's next message in this session"]
    for call in calls:
        wants, value = ("must be confirmed", "yes") if call.is_confirmation else ("waits for its result", "{}")
        lines.append(f"paused: {question(call)} of agent {call.agent!r} {wants}. Answer it with")
        words = ["raygrove", "answer", name, call.session_id, call.call_id, value, "--user", call.user_id]
        lines.append(f"  {shlex.join(words)}")
    return lines


def how_to_answer(calls: Sequence[PendingCall], path: str, options: Mapping[str, str | bool | Sequence[str] | None]) -> list[str]:
    """The question for which a paused turn waits, and the command that answers it.

    Args:
        calls: those that wait; none where an agent waits for the user's words.
        options: of the command that paused, which find the session again.
    """
    lines = []
    for call in calls:
        wants = (
            "must be confirmed" if call.is_confirmation else "waits for an answer" if call.question else "waits for its result"
        )
        lines.append(f"paused: {question(call)} of agent {call.agent!r} {wants}. Answer it with")
    words = ["raygrove", "run", path]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value:
            words += [word for each in ([value] if isinstance(value, str) else value) for word in (f"--{name}", each)]
    if not calls:
        return ["paused: an agent waits for your next message. Give it with", f"  {shlex.join(words)} MESSAGE"]
    for call in calls:
        given = "true" if call.is_confirmation else '{"action": "accept", "content": {}}' if call.question else "{}"
        words += ["--answer", f"{call.call_id}={given}"]
    return [*lines, "  " + shlex.join(words)]


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


class AnswerText:
    """Puts the texts of events in one line of speech.

    One agent speaks at a time. What others say meanwhile comes as a whole when the first has ended, so that the pieces of agents
    that run side by side are not mixed. Agents that are asked as tools speak to other agents, and are left out.

    Args:
        begin: is called with the name of an agent before its text.
        write: is called with pieces of text, and with a line end after each answer.
    """

    def __init__(self, begin: Callable[[str], None], write: Callable[[str], None]) -> None:
        self._begin = begin
        self._write = write
        self._speaker: tuple[str, str | None] | None = None
        self._said = ""
        self._waiting: list[Event] = []

    def add(self, event: Event) -> bool:
        """Take an event. Returns whether other lines may follow: no answer is under way."""
        speaker = (event.author, event.branch)
        if tool_root(event.branch) is not None:
            return self._speaker is None
        if event.partial:
            if event.text and self._speaker in (None, speaker):
                self._go_on(speaker, event.text)
        elif self._speaker not in (None, speaker):
            self._waiting.append(event)
        else:
            self._complete(event, speaker)
        return self._speaker is None

    def end_line(self) -> None:
        """End the line of an answer that was left in its middle, and give what others have said."""
        if self._speaker is not None:
            self._close()

    def _go_on(self, speaker: tuple[str, str | None], text: str) -> None:
        if self._speaker is None:
            self._speaker = speaker
            self._begin(speaker[0])
        self._said += text
        self._write(text)

    def _complete(self, event: Event, speaker: tuple[str, str | None]) -> None:
        text = event.text
        if not text and self._speaker is None:
            return
        if self._said and not text.startswith(self._said):
            # Another attempt, after a loss: what was streamed before does not count.
            self._write("\n")
            self._speaker, self._said = None, ""
        rest = text[len(self._said) :]
        if rest:
            self._go_on(speaker, rest)
        if self._speaker is not None:
            self._close()

    def _close(self) -> None:
        if not self._said.endswith("\n"):
            self._write("\n")
        self._speaker, self._said = None, ""
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self.add(event)
