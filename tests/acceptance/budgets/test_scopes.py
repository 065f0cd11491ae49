"""Budgets of an agent with all below it, and of an app for a day (docs/costs.md)."""

from __future__ import annotations

from typing import Any

import pytest

from actors import AgentTool, Budget, LlmAgent, ParallelAgent, RunConfig, SequentialAgent
from actors.errors import BudgetExceededError, DefinitionError, UnknownAgentError
from actors.messages.event import now_s
from actors.testing import PatternModel, ScriptedModel
from runtime import Settings
from runtime.driver.run_options import run_config_of
from tests.acceptance.driving.test_budgets import endless
from tests.support import inside
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import Deploy, run_turn, stored

ONE_CALL = Settings(daily_budget=Budget(llm_calls=1))


def of_agents(**budgets: Any) -> RunConfig:
    """Options with budgets of agents."""
    return run_config_of({"agent_budgets": budgets})


def test_an_agent_is_bounded_with_all_below_it_and_others_are_not(deploy: Deploy) -> None:
    team = ParallelAgent(name="team", sub_agents=[endless("a", 0.01), endless("b", 0.01)])
    other = LlmAgent(name="other", model=ScriptedModel([{"call": "look"}, "done"] * 2), tools=endless().tools)
    with deploy(SequentialAgent(name="all", sub_agents=[other, team])) as rt:
        with pytest.raises(BudgetExceededError) as caught:
            run_turn(rt, "go", run_config=of_agents(team=Budget(llm_calls=5)))
        assert caught.value.args[0] in ("a", "b")
        assert (caught.value.args[1:3], caught.value.args[5]) == (("llm_calls", 5), "agent 'team'")
        calls = {agent: sums.llm_calls for agent, sums in rt.usage(by="agent").groups.items()}
        # The call of the other one is stopped that is under way.
        assert 4 <= calls["a"] + calls["b"] <= 5
        assert calls["other"] == 2


def test_agents_that_an_agent_has_as_tools_are_below_it(local: Deploy) -> None:
    model = ScriptedModel([{"call": "expert", "args": {"request": "how?"}}, "I do not know"])
    asking = LlmAgent(name="asking", model=model, tools=[AgentTool(endless("expert"))])
    with local(asking) as rt:
        # The expert has a budget of its own, and the agent that has asked it goes on.
        with pytest.raises(BudgetExceededError):
            run_turn(rt, "go", run_config=of_agents(asking=Budget(llm_calls=4)))
        assert rt.usage().total.llm_calls == 4


def test_the_agent_that_has_asked_goes_on_when_the_budget_of_its_tool_is_used_up(local: Deploy) -> None:
    model = ScriptedModel([{"call": "expert", "args": {"request": "how?"}}, "I do not know"])
    asking = LlmAgent(name="asking", model=model, tools=[AgentTool(endless("expert"))])
    with local(asking) as rt:
        assert run_turn(rt, "go", run_config=of_agents(expert=Budget(llm_calls=3)))[-1].text == "I do not know"
        assert rt.usage().total.llm_calls == 5


def test_budgets_of_agents_within_each_other_hold_both(local: Deploy) -> None:
    inner = SequentialAgent(name="inner", sub_agents=[endless("a")])
    with local(SequentialAgent(name="outer", sub_agents=[inner])) as rt:
        for outer, inside, expected in ((2, 3, "outer"), (3, 2, "inner")):
            budgets = {"outer": Budget(llm_calls=outer), "inner": Budget(llm_calls=inside)}
            with pytest.raises(BudgetExceededError, match=f"agent '{expected}'"):
                run_turn(rt, "go", run_config=RunConfig(agent_budgets=budgets))


def test_an_agent_asks_for_more_of_its_own_budget(deploy: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([{"call": "look"}, "done"]), tools=endless().tools)
    with deploy(root) as rt:
        run_turn(rt, "go", run_config=of_agents(root={"llm_calls": 1, "at_limit": "ask"}))
        [question] = rt.pending(user_id="ada")
        assert question.args["budget"] == "agent 'root'"
        assert rt.answer(question, confirmed=True, user_id="ada", session_id="s1").result().text == "done"


def test_a_budget_for_an_agent_that_there_is_not_is_refused(local: Deploy) -> None:
    with local(endless("seeker")) as rt:
        with pytest.raises(UnknownAgentError, match="Did you mean 'seeker'"):
            run_turn(rt, "go", run_config=of_agents(seekr=Budget(llm_calls=1)))
        assert not rt.turns.list()
    for wrong in ({"a": 5}, {"a": {"calls": 1}}, 5):
        with pytest.raises(Exception, match=r"agent_budgets|calls"):
            run_config_of({"agent_budgets": wrong})


def test_all_turns_of_an_app_share_its_budget_of_a_day(deploy: Deploy) -> None:
    with deploy(endless(), settings=Settings(daily_budget=Budget(llm_calls=5))) as rt:
        for number in range(3):
            with pytest.raises(BudgetExceededError) as caught:
                run_turn(rt, "go", f"s{number}", user_id=f"user{number}")
        assert caught.value.args == ("root", "llm_calls", 5, 5, 1, "app 'test' today")
        assert rt.usage().total.llm_calls == 5


def test_turns_side_by_side_know_of_each_other_what_is_under_way(deploy: Deploy) -> None:
    with deploy(endless("root", 0.03), settings=Settings(daily_budget=Budget(llm_calls=17))) as rt:
        turns = [rt.run(user_id=f"u{number}", session_id="s1", message="go") for number in range(8)]
        for turn in turns:
            with pytest.raises(BudgetExceededError, match="llm_calls=17"):
                turn.result()
        assert rt.usage().total.llm_calls == 17


def test_sessions_of_a_user_know_of_each_other_what_is_under_way(deploy: Deploy) -> None:
    config = RunConfig(user_daily_budget=Budget(llm_calls=17))
    with deploy(endless("root", 0.03)) as rt:
        # Another user's calls do not count.
        turns = [
            rt.run(user_id=user, session_id=f"s{number}", message="go", run_config=config)
            for user in ("ada", "bob")
            for number in range(5)
        ]
        for turn in turns:
            with pytest.raises(BudgetExceededError, match="llm_calls=17"):
                turn.result()
        assert [rt.usage(user).total.llm_calls for user in ("ada", "bob")] == [17, 17]


def test_a_map_makes_as_many_calls_as_the_budget_of_the_app_has(deploy: Deploy) -> None:
    with deploy(
        LlmAgent(name="root", model=PatternModel([], default="ok")), settings=Settings(daily_budget=Budget(llm_calls=20))
    ) as rt:
        # While an answer is written to the disk, its call is neither under way nor stored.
        results = list(rt.map([f"input {number}" for number in range(60)], name="many"))
        assert sum(result.error is None for result in results) == 20
        errors = [result.error for result in results if result.error is not None]
        assert {type(error) for error in errors} == {BudgetExceededError}
        # No turn can give more of it.
        assert "Settings(daily_budget=…)" in str(errors[0])
        assert rt.usage().total.llm_calls == 20


def test_what_was_used_before_the_deployment_counts(deploy: Deploy, tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    with deploy(LlmAgent(name="root", model=ScriptedModel(["hi"])), session_store=store) as rt:
        run_turn(rt, "go")
    again = deploy(LlmAgent(name="root", model=ScriptedModel(["hi"])), session_store=store, settings=ONE_CALL)
    with again as rt, pytest.raises(BudgetExceededError, match="app 'test' today"):
        run_turn(rt, "go", "s2")


def test_turns_without_a_budget_count_for_those_that_have_one(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel([*"abcdef"]))) as rt:
        config = RunConfig(app_daily_budget=Budget(llm_calls=3))
        run_turn(rt, "go", run_config=config)
        for number in range(3):
            run_turn(rt, "go", f"s{number}")
        with pytest.raises(BudgetExceededError, match="llm_calls=3: 4 are used"):
            run_turn(rt, "go", run_config=config)


def test_a_turn_cannot_raise_the_budget_of_the_deployment(local: Deploy) -> None:
    with local(endless(), settings=ONE_CALL) as rt, pytest.raises(BudgetExceededError, match="llm_calls=1:"):
        run_turn(rt, "go", run_config=RunConfig(app_daily_budget=Budget(llm_calls=9)))


def test_a_day_begins_at_midnight(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel(["a", "b"])), settings=ONE_CALL) as rt:
        run_turn(rt, "hi")
        with pytest.raises(BudgetExceededError):
            run_turn(rt, "hi")
        inside.set_clock(monkeypatch, "budgets", now_s() + 86_400)
        run_turn(rt, "hi")


def test_a_paused_turn_counts_once_when_it_goes_on(deploy: Deploy) -> None:
    model = MeteredModel(ScriptedModel([{"call": "look"}, {"call": "look"}, "done", "again"]))
    root = LlmAgent(name="root", model=model, tools=endless().tools)
    with deploy(root, settings=Settings(daily_budget=Budget(llm_calls=4))) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=2, at_limit="ask")))
        [question] = rt.pending(user_id="ada")
        assert rt.answer(question, confirmed=True, user_id="ada", session_id="s1").result().text == "done"
        run_turn(rt, "go")
        with pytest.raises(BudgetExceededError, match="llm_calls=4: 4 are used"):
            run_turn(rt, "go")
        assert len(stored(rt)) > 4


def test_the_setting_is_a_budget_or_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYGROVE_DAILY_BUDGET", '{"money": 20}')
    assert Settings().daily_budget == Budget(money=20)
    assert Settings(daily_budget={"tokens": 5, "at_limit": "wrap_up"}).daily_budget == Budget(tokens=5, at_limit="wrap_up")
    for wrong in ("no", '{"tokns": 1}', "[1]", '{"tokens": -1}'):
        monkeypatch.setenv("RAYGROVE_DAILY_BUDGET", wrong)
        with pytest.raises(DefinitionError, match="DAILY_BUDGET"):
            Settings()
