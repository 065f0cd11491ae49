"""What servers ask the user, and how an answer that came later finds its question.

The question is stored in the log, and its answer may come after every process was started again. Then the server may know nothing
of the call: it is made from the start, and what the server asks again is answered with what the user has said. Hence a memo goes
with each question: all earlier questions of the call with their answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from actors.errors import McpToolError
from actors.messages.json_types import JsonMapping, JsonObject

ACTIONS = ("accept", "decline", "cancel")
"""What a user can do with a question."""

_FORM = '{"action": "accept", "content": {…}}, {"action": "decline"} or {"action": "cancel"}'


class Answers:
    """The answers of one call, in the order in which they came. Each is used once.

    Args:
        given: questions with their answers.
    """

    def __init__(self, given: list[tuple[JsonObject, JsonObject]]) -> None:
        self._left = list(given)

    def take_answer(self, question: JsonMapping) -> JsonObject | None:
        """The answer to a question; None when there is none."""
        for index, (asked, answer) in enumerate(self._left):
            if asked == question:
                del self._left[index]
                return answer
        return None


class Given(NamedTuple):
    """What the user has answered so far in one call.

    Attributes:
        known: all questions with their answers, the oldest first.
        newest: the answers to the questions asked last, by the server's keys.
        state: what the server wants back with the newest answers; None without.
    """

    known: list[tuple[JsonObject, JsonObject]]
    newest: dict[str, JsonObject]
    state: str | None

    def memo(self, asked: Mapping[str, JsonObject], state: str | None) -> JsonObject:
        """The JSON that has to come back with the answers to the next questions."""
        return {"known": [list(pair) for pair in self.known], "asked": dict(asked), "state": state}


def given_answers(tool: str, memo: JsonObject | None, answer: JsonObject | None) -> Given:
    """Read what came with a call.

    Args:
        memo: as `Given.memo` has made it; None for a call without answers.
        answer: what the user has answered to the newest questions.

    Raises:
        McpToolError: the answer has another form than it needs.
    """
    if memo is None:
        return Given([], {}, None)
    asked: dict[str, JsonObject] = memo["asked"]
    by_key = answer if len(asked) > 1 else dict.fromkeys(asked, answer)
    newest = {key: _checked(tool, key, question, (by_key or {}).get(key)) for key, question in asked.items()}
    known = [(question, given) for question, given in memo["known"]]
    return Given([*known, *((asked[key], newest[key]) for key in asked)], newest, memo["state"])


def question_for(asked: Mapping[str, JsonObject]) -> JsonObject:
    """The question for the user; or several by the server's keys, which the answer has, too."""
    if len(asked) == 1:
        return dict(next(iter(asked.values())))
    return {"questions": dict(asked)}


def _checked(tool: str, key: str, question: JsonObject, answer: object) -> JsonObject:
    if isinstance(answer, dict) and answer.get("action") in ACTIONS:
        content = answer.get("content")
        if content is None or isinstance(content, dict):
            filled = {**_defaults(question), **(content or {})}
            with_content = answer["action"] == "accept" and (filled or content is not None)
            return {"action": answer["action"], "content": filled} if with_content else {"action": answer["action"]}
    raise McpToolError(tool, f"the answer to its question {key!r} has to be {_FORM}, not {json.dumps(answer)[:200]}")


def _defaults(question: JsonObject) -> JsonObject:
    """The fields of a form that have a default; none for a page to visit."""
    schema = question.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict):
        return {}
    return {name: field["default"] for name, field in fields.items() if isinstance(field, dict) and "default" in field}
