"""Budgets of turns, agents, sessions, users and apps: what would go beyond one is refused before it is done (docs/costs.md)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import pytest

from actors import (
    AgentTool,
    Budget,
    Content,
    FunctionCall,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    ParallelAgent,
    Part,
    Price,
    RunConfig,
    SequentialAgent,
)
from actors.errors import BudgetExceededError, DefinitionError, NoPriceError, RequestError, UnknownAgentError
from actors.messages.event import now_s
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.arguments import run_config_of
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support import inside
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import Deploy, run_turn, stored

PRICED = Settings(prices={"metered": Price(input=1_000, output=1_000)})


class Endless:
    """A model that calls one tool for ever, after some seconds."""

    def __init__(self, tool: str, thinks_s: float = 0.0) -> None:
        self._tool = tool
        self._thinks_s = thinks_s

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.sleep(self._thinks_s)
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=FunctionCall(name=self._tool))]))


def look() -> str:
    """Look."""
    return "nothing"


def ask() -> None:
    """Ask a person."""


def endless(name: str = "root", thinks_s: float = 0.0, **fields: Any) -> LlmAgent:
    """An agent that calls its tool for ever. Its model takes 10 tokens for each part of the request, and 5 for its answer."""
    return LlmAgent(name=name, model=MeteredModel(Endless("look", thinks_s)), tools=[look], **fields)


def exceeded(rt: Runtime, **budget: Any) -> BudgetExceededError:
    """The error of a turn with a budget."""
    with pytest.raises(BudgetExceededError) as caught:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(**budget)))
    return caught.value


def test_the_call_beyond_the_budget_is_not_made_and_the_error_says_which_how_much_and_whose(deploy: Deploy) -> None:
    with deploy(endless()) as rt:
        error = exceeded(rt, llm_calls=3)
        [turn] = rt.turns.list()
        assert error.args == ("root", "llm_calls", 3, 3, 1, f"turn '{turn.invocation_id}'")
        assert "llm_calls=3" in str(error)
        assert turn.state == "failed"
        assert rt.usage().total.llm_calls == 3
        last = stored(rt)[-1]
        assert (last.author, last.error_code) == ("root", "BudgetExceededError")


@pytest.mark.parametrize(("field", "limit"), [("tokens", 200), ("money", 0.2)])
def test_tokens_and_money_are_overspent_by_less_than_a_call(local: Deploy, field: str, limit: float) -> None:
    with local(endless(), settings=PRICED) as rt:
        error = exceeded(rt, **{field: limit})
        assert error.args[1:3] == (field, limit)
        used = rt.usage().total
        spent = used.tokens if field == "tokens" else used.money
        assert spent is not None
        assert limit / 2 < spent <= limit


def test_seconds_are_those_of_models_and_tools(local: Deploy) -> None:
    def wait() -> str:
        """Wait."""
        threading.Event().wait(0.05)
        return "done"

    root = LlmAgent(name="root", model=MeteredModel(Endless("wait")), tools=[wait])
    with local(root) as rt:
        assert exceeded(rt, seconds=0.12).args[1] == "seconds"
        assert 0.1 <= rt.usage().total.seconds < 0.3


def test_tools_beyond_the_budget_are_not_run(deploy: Deploy) -> None:
    two = {"parts": [{"call": "look"}, {"call": "look"}]}
    root = LlmAgent(name="root", model=ScriptedModel([two, two, "never"]), tools=[look])
    with deploy(root) as rt:
        assert exceeded(rt, tool_calls=3).args[1:5] == ("tool_calls", 3, 4, 0)
        answered = [response for event in stored(rt) for response in event.function_responses()]
        assert len(answered) == 2


def test_transfers_are_calls_of_tools_as_well(local: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([{"transfer": "other"}]), sub_agents=[endless("other", description="x")])
    with local(root) as rt:
        assert exceeded(rt, tool_calls=0).args == ("root", "tool_calls", 0, 0, 1, exceeded_turn(rt))


def exceeded_turn(rt: Runtime) -> str:
    return f"turn '{rt.turns.list()[0].invocation_id}'"


def test_all_agents_below_count_also_those_that_are_asked_as_tools(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "expert", "args": {"request": "how?"}}, "never"])
    asking = LlmAgent(name="asking", model=model, tools=[AgentTool(endless("expert"))])
    with deploy(SequentialAgent(name="all", sub_agents=[LlmAgent(name="first", model=ScriptedModel(["hi"])), asking])) as rt:
        assert exceeded(rt, llm_calls=5).args[0] in ("expert", "asking")
        assert rt.usage().total.llm_calls == 5


def test_agents_side_by_side_reserve_before_they_call(deploy: Deploy) -> None:
    # Without reservations each of them would see room for the last call.
    root = ParallelAgent(name="all", sub_agents=[endless(f"a{number}", 0.03) for number in range(8)])
    with deploy(root) as rt:
        assert exceeded(rt, llm_calls=13).args[1:3] == ("llm_calls", 13)
        assert rt.usage().total.llm_calls <= 13


def test_a_budget_that_is_large_enough_changes_nothing(deploy: Deploy) -> None:
    root = LlmAgent(name="root", model=MeteredModel(ScriptedModel([{"call": "look"}, "done"])), tools=[look])
    budget = Budget(tokens=1_000, money=1.0, llm_calls=2, tool_calls=1, seconds=60)
    with deploy(root, settings=PRICED) as rt:
        assert run_turn(rt, "go", run_config=RunConfig(budget=budget))[-1].text == "done"


def test_a_retry_with_more_goes_on_and_counts_what_was_used_before(deploy: Deploy) -> None:
    with deploy(endless()) as rt:
        exceeded(rt, llm_calls=2)
        [turn] = rt.turns.list()
        again = partial(rt.retry, user_id="ada", session_id="s1", invocation_id=turn.invocation_id)
        with pytest.raises(BudgetExceededError, match="llm_calls=2"):
            again().result()
        with pytest.raises(BudgetExceededError, match="llm_calls=3"):
            again(run_config=RunConfig(budget=Budget(llm_calls=3))).result()
        assert rt.usage().total.llm_calls == 3


def test_a_turn_that_is_answered_keeps_its_budget_unless_it_gets_another(deploy: Deploy) -> None:
    replies: list[Any] = [{"call": "ask"}, {"call": "ask"}, {"call": "ask"}, {"call": "look"}, "never"]
    root = LlmAgent(name="root", model=ScriptedModel(replies), tools=[look, LongRunningFunctionTool(ask)])
    with deploy(root) as rt:

        def answer(**options: Any) -> None:
            [call] = rt.pending(user_id="ada")
            rt.answer({call.call_id: {"ok": True}}, user_id="ada", session_id="s1", **options).result()

        run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=2)))
        answer()
        with pytest.raises(BudgetExceededError, match="llm_calls=2"):
            answer()


def test_a_turn_that_is_answered_with_more_goes_on(local: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([{"call": "ask"}, "done"]), tools=[LongRunningFunctionTool(ask)])
    with local(root) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=1)))
        [call] = rt.pending(user_id="ada")
        more = RunConfig(budget=Budget(llm_calls=2))
        assert rt.answer({call.call_id: 1}, user_id="ada", session_id="s1", run_config=more).result().text == "done"


def test_a_session_has_a_budget_for_all_its_turns(deploy: Deploy) -> None:
    config = RunConfig(session_budget=Budget(llm_calls=3))
    with deploy(LlmAgent(name="root", model=ScriptedModel(["a", "b"]))) as rt:
        for _ in range(2):
            run_turn(rt, "hi", run_config=config)
    with deploy(LlmAgent(name="root", model=ScriptedModel(["c", "d", "e"]))) as rt:
        run_turn(rt, "hi", run_config=config)
        with pytest.raises(BudgetExceededError) as caught:
            run_turn(rt, "hi", run_config=config)
        assert caught.value.args == ("root", "llm_calls", 3, 3, 1, "session 's1'")
        # Other sessions, and turns without that budget, are as free as before.
        run_turn(rt, "hi", "s2", run_config=config)
        run_turn(rt, "hi")


def test_a_user_has_a_budget_for_a_day_over_all_sessions(deploy: Deploy) -> None:
    config = RunConfig(user_daily_budget=Budget(tokens=50))
    with deploy(LlmAgent(name="root", model=MeteredModel(ScriptedModel(["hi"] * 9)))) as rt:
        for session in ("s1", "s2"):
            run_turn(rt, "hi", session, run_config=config)
        run_turn(rt, "hi", "s3", run_config=config)
        with pytest.raises(BudgetExceededError) as caught:
            run_turn(rt, "hi", "s4", run_config=config)
        assert (caught.value.args[1], caught.value.args[5]) == ("tokens", "user 'ada' today")
        assert rt.usage("ada").total.tokens == 45
        run_turn(rt, "hi", user_id="bob", run_config=config)


def test_other_sessions_of_a_user_that_run_count_as_far_as_they_are(local: Deploy) -> None:
    is_there, may_go_on = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        is_there.set()
        may_go_on.wait(30)
        return "done"

    config = RunConfig(user_daily_budget=Budget(llm_calls=1))
    with local(LlmAgent(name="root", model=ScriptedModel([{"call": "wait"}, "end"]), tools=[wait])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        assert is_there.wait(30)
        with pytest.raises(BudgetExceededError):
            run_turn(rt, "hi", "s2", run_config=config)
        may_go_on.set()
        assert turn.result().text == "end"


def test_a_model_without_a_price_is_not_called_on_a_budget_of_money(local: Deploy) -> None:
    with local(endless()) as rt, pytest.raises(NoPriceError, match="'metered', which has no price"):
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(money=1)))


def test_a_call_that_fails_holds_nothing_back(local: Deploy) -> None:
    model = MeteredModel(ScriptedModel([ConnectionError("down"), "hi"]))
    with local(LlmAgent(name="root", model=model)) as rt:
        with pytest.raises(Exception, match="down"):
            run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=1)))
        [turn] = rt.turns.list()
        again = rt.retry(user_id="ada", session_id="s1", invocation_id=turn.invocation_id)
        assert again.result().text == "hi"


@pytest.mark.parametrize(
    "wrong", [{}, {"tokens": -1}, {"tokens": 1.5}, {"money": "1"}, {"llm_calls": True}, {"seconds": float("inf")}]
)
def test_a_wrong_budget_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Budget"):
        Budget(**wrong)


def test_options_as_a_dictionary_may_have_a_budget() -> None:
    assert run_config_of({"budget": {"tokens": 5}}).budget == Budget(tokens=5)
    with pytest.raises(RequestError, match="tokens"):
        run_config_of({"budget": {"tokens": -5}})
    with pytest.raises(RequestError, match="Did you mean 'tokens'"):
        run_config_of({"budget": {"token": 5}})
    with pytest.raises(ValueError, match="must be a Budget, such as"):
        RunConfig(budget=cast(Any, 5))


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


def test_agents_that_an_agent_has_as_tools_are_below_it_and_it_goes_on_when_their_own_budget_is_used_up(local: Deploy) -> None:
    model = ScriptedModel([{"call": "expert", "args": {"request": "how?"}}, "I do not know"] * 2)
    asking = LlmAgent(name="asking", model=model, tools=[AgentTool(endless("expert"))])
    with local(asking) as rt:
        assert run_turn(rt, "go", run_config=of_agents(expert=Budget(llm_calls=3)))[-1].text == "I do not know"
        assert rt.usage().total.llm_calls == 5
        with pytest.raises(BudgetExceededError):
            run_turn(rt, "go", "s2", run_config=of_agents(asking=Budget(llm_calls=4)))
        assert rt.usage().total.llm_calls == 5 + 4


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


@pytest.mark.parametrize(
    ("config", "settings"),
    [(None, ONE_CALL), (RunConfig(user_daily_budget=Budget(llm_calls=1)), Settings())],
    ids=["app", "user"],
)
def test_a_day_begins_at_midnight(
    local: Deploy, monkeypatch: pytest.MonkeyPatch, config: RunConfig | None, settings: Settings
) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel(["a", "b"])), settings=settings) as rt:
        run_turn(rt, "hi", run_config=config)
        with pytest.raises(BudgetExceededError):
            run_turn(rt, "hi", run_config=config)
        inside.set_clock(monkeypatch, "budgets", now_s() + 86_400)
        run_turn(rt, "hi", run_config=config)


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
