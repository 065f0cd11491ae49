"""What the user has answered to the questions of nodes."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from actors.messages.event import Event
from actors.messages.json_types import JsonValue
from actors.rules.checks.answer_form import answered


class UserAnswer(NamedTuple):
    """An answer. `seq`: the place of the message that has it."""

    seq: int
    value: JsonValue


class UserAnswers:
    """The answers of a turn, by the id of the call, and where its messages stand."""

    def __init__(self) -> None:
        self._given: dict[str, list[UserAnswer]] = {}
        self._messages: list[int] = []

    def add(self, message: Event) -> None:
        """Take in a message of the user: later ones after earlier ones."""
        self._messages.append(message.seq)
        for response in message.function_responses():
            if response.id:
                self._given.setdefault(response.id, []).append(UserAnswer(message.seq, answered(response.response)))

    def after(self, call_id: str, seq: int) -> UserAnswer | None:
        """The latest answer to a call that came after a place of the log; None without one."""
        latest = self._given.get(call_id, [None])[-1]
        return latest if latest is not None and latest.seq > seq else None

    def has_between(self, call_id: str, after_seq: float, before_seq: float) -> bool:
        """True when a call was answered between two places of the log."""
        return any(after_seq < answer.seq < before_seq for answer in self._given.get(call_id, ()))

    def goes_on_between(self, after_seq: float, before_seq: float) -> bool:
        """True when the user has said something between two places of the log."""
        index = bisect_right(self._messages, after_seq)
        return index < len(self._messages) and self._messages[index] < before_seq
