"""What the user's answer to a call that needs consent means (semantics.md 5.6)."""

from __future__ import annotations

from typing import Any

import pytest

from actors import LlmAgent, LongRunningFunctionTool
from actors.errors import DefinitionError
from actors.rules.checks.questions import refusal
from actors.rules.prompt.history import History
from tests.support.fixtures.log_events import call, event, resp


def test_only_a_plain_yes_is_one() -> None:
    assert refusal("pay", {"confirmed": True}) is None
    assert refusal("pay", {"confirmed": False, "reason": "dear"}) == "This tool call is rejected."


@pytest.mark.parametrize("answer", [{}, {"confirmed": "true"}, {"confirmed": 1}, {"confirmed": None}, {"result": True}])
def test_an_answer_that_is_neither_yes_nor_no_is_no_and_says_what_it_should_be(answer: dict[str, Any]) -> None:
    told = refusal("pay", answer)
    assert told is not None
    assert told.startswith('pay was not run: the answer has to be {"confirmed": true} or {"confirmed": false}, not {')


def test_decisions_are_those_on_calls_made_together_with_what_became_of_them() -> None:
    view = History("me")
    for each in (
        event("me", call("c1"), call("c2"), call("c3"), lro=("c1", "c2", "c3")),
        event("me", call("d1"), lro=("d1",)),
        event("user", resp("d1", 0)),
        event("user", resp("c2", 1)),
        event("me", resp("c2", 2)),
        event("user", resp("c1", 3)),
    ):
        view.add(each)
    decided = [
        (made.id, answer.response["result"], settled.response["result"] if settled is not None else None)
        for made, answer, settled, _ in view.user_replies(["c1"])
    ]
    assert decided == [("c1", 3, None), ("c2", 1, 2)]
    assert view.user_replies(["nobody", None]) == []


def test_a_tool_cannot_wait_for_consent_and_for_a_late_result() -> None:
    def pay() -> None:
        """Pay."""

    with pytest.raises(DefinitionError, match=r"'pay'.*not both"):
        LlmAgent(name="root", tools=[LongRunningFunctionTool(pay, require_confirmation=True)])


def test_replies_that_the_agent_has_answered_are_not_given_to_a_later_run_but_a_second_yes_is() -> None:
    view = History("me")
    for each in (event("me", call("c1"), lro=("c1",)), event("user", resp("c1", 1)), event("me", resp("c1", 2))):
        view.add(each)
    assert view.user_replies(["c1"]) == []
    view.add(event("user", resp("c1", 3)))
    assert [made.id for made, *_ in view.user_replies(["c1"])] == ["c1"]
