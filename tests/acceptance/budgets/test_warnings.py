"""At 80 % of a budget plugins, operators and metrics hear of it, once (docs/costs.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import Budget, BudgetWarning, CallbackContext, LlmAgent, Plugin, RunConfig
from actors.errors import BudgetExceededError
from actors.testing import ScriptedModel
from runtime import Runtime, Settings
from tests.acceptance.driving.test_budgets import endless
from tests.support import inside
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn

TEN = Budget(llm_calls=10)


class Listening(Plugin):
    """Writes down what it hears, where every process can."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_budget_callback(self, context: CallbackContext, warning: BudgetWarning) -> None:
        with self.path.open("a") as file:
            file.write(f"{context.agent_name} {warning.whose} {warning.field} {warning.used:g} of {warning.limit:g}\n")

    @property
    def heard(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def told(rt: Runtime) -> list[str]:
    """The events about budgets."""
    return [event.text for event in rt.deployment_events() if event.kind == "budget"]


def test_plugins_and_operators_hear_once_of_each_budget(deploy: Deploy, tmp_path: Path) -> None:
    plugin = Listening(tmp_path / "heard")
    config = RunConfig(budget=TEN, session_budget=Budget(tool_calls=12), agent_budgets={"root": Budget(llm_calls=100)})
    with deploy(endless(), plugins=[plugin]) as rt:
        with pytest.raises(BudgetExceededError):
            run_turn(rt, "go", run_config=config)
        [turn] = rt.turns.list()
        assert plugin.heard == [
            f"root turn '{turn.invocation_id}' llm_calls 8 of 10",
            "root session 's1' tool_calls 10 of 12",
        ]
        until(lambda: any("session 's1'" in text for text in told(rt)))
        assert [text.split(":")[0] for text in told(rt)][-2:] == [
            f"the budget of turn '{turn.invocation_id}' is used to 80 %",
            "the budget of session 's1' is used to 83 %",
        ]
        counts = rt.statistics().session.counts
        assert (counts["budget_warnings"], counts["budget_refusals"], counts["budget_questions"]) == (2, 1, 0)


def test_of_a_budget_of_several_turns_they_hear_once_a_day(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Listening(tmp_path / "heard")
    root = LlmAgent(name="root", model=ScriptedModel(["hi"] * 9))
    with local(root, plugins=[plugin], settings=Settings(daily_budget=Budget(llm_calls=5))) as rt:
        for user in ("ada", "bob", "ada", "bob", "ada"):
            run_turn(rt, "go", user_id=user)
        assert plugin.heard == ["root app 'test' today llm_calls 4 of 5"]
        inside.set_clock(monkeypatch, "budgets", 4_000_000_000.0)
        for _ in range(4):
            run_turn(rt, "go")
        assert len(plugin.heard) == 1


def test_a_turn_that_goes_on_after_a_question_is_not_told_of_twice(deploy: Deploy, tmp_path: Path) -> None:
    plugin = Listening(tmp_path / "heard")
    root = LlmAgent(name="root", model=ScriptedModel([{"call": "look"}, {"call": "look"}, "done"]), tools=endless().tools)
    with deploy(root, plugins=[plugin]) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=1, at_limit="ask")))
        for _ in range(2):
            [question] = rt.pending(user_id="ada")
            rt.answer(question, response={"llm_calls": 1}, user_id="ada", session_id="s1").result()
        assert len(plugin.heard) == 1
        assert rt.statistics().session.counts["budget_questions"] == 2


def test_a_hook_that_raises_fails_the_run(local: Deploy) -> None:
    class Strict(Plugin):
        def on_budget_callback(self, context: CallbackContext, warning: BudgetWarning) -> None:
            raise ValueError("too much")

    with local(endless(), plugins=[Strict()]) as rt, pytest.raises(Exception, match="too much"):
        run_turn(rt, "go", run_config=RunConfig(budget=TEN))
