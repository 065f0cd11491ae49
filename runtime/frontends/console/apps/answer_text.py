"""The text of a turn as it comes: pieces as they are streamed, and of each answer every word once."""

from __future__ import annotations

from collections.abc import Callable

from actors.messages.event import Event
from actors.rules.routing.branches import tool_root


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
