"""What the user's answer to a call means for it: with what the call is run, or what is its response without that."""

from __future__ import annotations

from actors.behaviours.llm.tool_calls import UserAnswer
from actors.definitions.tools.context import AnsweredInput, ToolConfirmation
from actors.messages.event import RequestedInput
from actors.messages.json_types import JsonObject
from actors.rules.checks import confirmation


class CallAnswers:
    """The user's answers to the calls of one response.

    Attributes:
        given: by id, what the user has said to calls that are run with it.
        decided: by id, the responses of calls that are not run.
    """

    def __init__(self) -> None:
        self.given: dict[str, UserAnswer] = {}
        self.decided: dict[str, JsonObject] = {}

    def add(self, call_id: str, tool: str, answer: JsonObject, asked: RequestedInput | None) -> None:
        """Take in the answer to one call.

        Args:
            answer: what the user has said.
            asked: what the tool has asked in the middle of the call; None: the call needs consent by its definition.
        """
        if asked is not None and not asked.is_confirmation:
            self.given[call_id] = AnsweredInput(asked.memo, answer)
            return
        # A tool that has asked by itself runs after a no, too.
        is_told = asked is not None and answer.get(confirmation.CONFIRMED) is False
        refused = None if is_told else confirmation.refusal(tool, answer)
        if refused is not None:
            self.decided[call_id] = {"error": refused}
            return
        hint = str(asked.question.get("message", "")) if asked is not None else ""
        self.given[call_id] = ToolConfirmation(not is_told, answer.get(confirmation.PAYLOAD), hint)
