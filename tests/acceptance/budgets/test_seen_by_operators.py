"""What turns have used, and how far their budgets are used, is seen where operators look at turns.

At 80 % of a budget plugins, operators and metrics hear of it, once (docs/costs.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import (
    Budget,
    BudgetWarning,
    CallbackContext,
    Content,
    LlmAgent,
    LlmResponse,
    Paused,
    Plugin,
    Price,
    RunConfig,
    Usage,
    tool,
)
from actors.errors import BudgetExceededError, LlmCallsLimitExceededError, NotEncodableError, RequestError
from actors.layers.spending.messages import GetTurnBudgets, GetUsage, UsedBudget
from actors.refs import SessionRef
from actors.testing import ScriptedModel, reply_parts
from runtime import Runtime, Settings
from runtime.frontends.console.conversation import Commands
from runtime.frontends.console.lines import budget_line
from runtime.frontends.console.overview import _used_today
from runtime.frontends.console.terminal import Terminal
from tests.acceptance.budgets.test_budgets import endless
from tests.support import inside
from tests.support.console import have_joined, invoke
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn

CALLS = 20


@tool
def search(query: str) -> list[str]:
    """Search for something."""
    return []


class Priced(ScriptedModel):
    name = "priced"


def seeker() -> LlmAgent:
    usage = Usage(prompt_token_count=1000, candidates_token_count=100)
    parts = reply_parts({"call": "search", "args": {"query": "gold"}})[0]
    model = Priced([LlmResponse(content=Content(role="model", parts=parts), usage=usage)] * CALLS)
    return LlmAgent(name="seeker", model=model, tools=[search])


def started(deploy: Deploy) -> Runtime:
    return deploy(seeker(), settings=Settings(prices={"priced": Price(input=1.0, output=10.0)}))


def described(rt: Runtime, session: str = "s1") -> list[UsedBudget]:
    return [*rt.turns.describe("ada", session, rt.turns.list("ada", session, limit=1)[0].invocation_id).budgets]


def test_a_deployment_that_does_not_know_the_question_is_described_without_budgets(
    local: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As one of an older release answers a message that it cannot read.
    ask = SessionRef.ask

    async def unread(ref: SessionRef, message: Any) -> Any:
        if isinstance(message, GetTurnBudgets):
            raise NotEncodableError("message for session", "Invalid value 'GetTurnBudgets'")
        return await ask(ref, message)

    with started(local) as rt:
        rt.run(
            user_id="ada", session_id="s1", message="go", run_config=RunConfig(budget=Budget(llm_calls=1, at_limit="ask"))
        ).result()
        assert described(rt) != []
        monkeypatch.setattr(SessionRef, "ask", unread)
        assert described(rt) == []


def test_a_turn_that_waits_is_described_with_its_budgets(deploy: Deploy) -> None:
    """A turn whose budgets are of all kinds, before an answer, after it, and when its deployment is another one."""
    asks = Budget(llm_calls=2, at_limit="ask")
    config = RunConfig(
        budget=asks,
        agent_budgets={"seeker": Budget(tool_calls=9)},
        session_budget=Budget(tokens=50_000),
        user_daily_budget=Budget(money=1.0),
        app_daily_budget=Budget(tokens=100_000, model="cheap"),
    )
    with started(deploy) as rt:
        rt.run(user_id="ada", session_id="other", message="find", run_config=RunConfig(budget=asks)).result()
        paused = rt.run(user_id="ada", session_id="s1", message="find", run_config=config).result()
        assert isinstance(paused.outcome, Paused)
        turn = f"turn {paused.invocation_id!r}"
        # The turn counts once, though the store has it among the others by now.
        expected = [
            UsedBudget(whose=turn, field="llm_calls", limit=2, used=2, at_limit="ask"),
            UsedBudget(whose="agent 'seeker'", field="tool_calls", limit=9, used=2),
            UsedBudget(whose="session 's1'", field="tokens", limit=50_000, used=2_200),
            UsedBudget(whose="user 'ada' today", field="money", limit=1.0, used=0.008),
            UsedBudget(whose="app 'test' today", field="tokens", limit=100_000, used=4_400, model="cheap"),
        ]
        assert sorted(described(rt), key=lambda each: each.whose) == sorted(expected, key=lambda each: each.whose)
        [question] = rt.pending(user_id="ada", session_id="s1")
        rt.answer(question, response={"llm_calls": 3}, user_id="ada", session_id="s1").result()
        [own] = [each for each in described(rt) if each.whose == turn]
        assert (own.limit, own.used) == (5, 5)
        found = rt.turns.describe("ada", "s1", paused.invocation_id)
        assert (round(found.money or 0, 6), found.currency) == (0.01, "USD")
    with started(deploy) as rt:
        # By the store alone.
        assert [(each.limit, each.used) for each in described(rt) if each.whose == turn] == [(5, 5)]


def test_a_turn_that_failed_has_them_and_one_without_budgets_none(local: Deploy) -> None:
    with started(local) as rt:
        with pytest.raises(BudgetExceededError):
            rt.run(user_id="ada", session_id="s1", message="find", run_config=RunConfig(budget=Budget(llm_calls=2))).result()
        assert [(each.field, each.used, each.limit) for each in described(rt)] == [("llm_calls", 2, 2)]
        with pytest.raises(LlmCallsLimitExceededError):
            rt.run(user_id="ada", session_id="s2", message="find", run_config=RunConfig(max_llm_calls=2)).result()
        assert described(rt, "s2") == []


@pytest.fixture
def rt(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    with started(local) as rt:
        have_joined(monkeypatch, rt, "test")
        config = RunConfig(budget=Budget(llm_calls=2, at_limit="ask"))
        rt.run(user_id="ada", session_id="s1", message="find", run_config=config).result()
        yield rt


def raygrove(*arguments: str) -> str:
    return invoke(*arguments).output


def test_commands_show_them(rt: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    told = raygrove("describe", "test", "s1")
    assert "  money:      0.004000 USD\n" in told
    assert "llm_calls 2 of 2, then ask\n" in told
    assert "  budget:     100 % of turn " in told
    columns, row = (line.split("\t") for line in raygrove("turns", "test", "--usage").splitlines())
    assert dict(zip(columns, row, strict=True)) | {"CALLS": "2", "TOKENS": "2200", "MONEY": "0.0040 USD"} == dict(
        zip(columns, row, strict=True)
    )
    assert "TOKENS" not in raygrove("turns", "test")
    with pytest.raises(RequestError, match="without --watch"):
        raygrove("turns", "test", "--usage", "--watch")
    nearly = UsedBudget(whose="user 'ada' today", field="tokens", limit=2_000_000, used=1_500_000.5, model="cheap")
    assert budget_line(nearly) == "75 % of user 'ada' today: tokens 1,500,000.5 of 2,000,000, then the model 'cheap'"
    assert _used_today(rt) == {"tokens": 2200, "money": "0.0040 USD"}
    capsys.readouterr()
    Commands(rt, "ada", Terminal()).do("/usage", "", "s1")
    Commands(rt, "ada", Terminal()).do("/usage", "", "new")
    first, budget, new = capsys.readouterr().out.splitlines()
    assert first.startswith("2 model calls, 2 calls of tools, ")
    assert first.endswith("2,200 tokens (2,000 in, 200 out), 0.004000 USD")
    assert budget.endswith("llm_calls 2 of 2, then ask")
    assert new.startswith("0 model calls")


def test_usage_of_turns_is_asked_for_a_hundred_at_once(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ask = SessionRef.ask

    async def counted(ref: SessionRef, message: Any) -> Any:
        if not isinstance(message, GetUsage) or not message.turns:
            return await ask(ref, message)
        asked.append(len(message.turns))
        return await ask(ref, message)

    monkeypatch.setattr(SessionRef, "ask", counted)
    with started(local) as rt:
        for number in range(3):
            rt.run(
                user_id="ada",
                session_id=f"s{number}",
                message="go",
                run_config=RunConfig(budget=Budget(llm_calls=1 + number, at_limit="ask")),
            ).result()
        turns = rt.turns.list("ada")
        each = [rt.usage(turn.user_id, turn.session_id, turn.invocation_id) for turn in turns]
        assert [report.total.llm_calls for report in each] == [3, 2, 1]
        assert rt.usages(turns) == each
        assert rt.usages(turns * 50) == each * 50
        assert asked == [3, 100, 50]
        assert rt.usages([]) == []


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
        until(lambda: any("budget of session 's1'" in text for text in told(rt)))
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
