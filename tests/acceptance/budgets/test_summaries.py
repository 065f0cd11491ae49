"""Summaries of conversations stay within budgets, whatever is to happen when one is used up (semantics.md 5.8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import (
    Budget,
    CallbackContext,
    Content,
    Event,
    EventsCompactionConfig,
    LlmAgent,
    LlmEventSummarizer,
    LlmRequest,
    LlmResponse,
    Model,
    Price,
    RunConfig,
)
from actors.errors import BudgetExceededError, NoPriceError
from actors.testing import ScriptedModel
from runtime import Runtime, Settings
from runtime.models import registry
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.stores.logged_usage import check_usage

LONG = "something that takes many words to say, and can be said in fewer of them " * 2
ROOM_FOR_ANSWERS = 120
"""Tokens that two answers take, and no summary beside them."""


class Cheap:
    """A model that says the same each time."""

    name = "cheap"

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=Content.of_text("cheap words", role="model"))


def make_cheap(name: str) -> Model:
    return Cheap()


def name_cheap(context: CallbackContext) -> None:
    """Give the process of the agent a model of the name "cheap"."""
    registry.FACTORIES = {"cheap": make_cheap}


class Talk:
    """A conversation that is summarised before each turn but the first."""

    def __init__(self, deploy: Deploy, *summaries: Any, settings: Settings | None = None, **fields: Any) -> None:
        self.writer = ScriptedModel(list(summaries))
        summarizer = LlmEventSummarizer(MeteredModel(self.writer, "writer"))
        model = MeteredModel(ScriptedModel([f"a{number}" for number in range(9)]))
        self.rt: Runtime = deploy(
            LlmAgent(name="root", model=model, **fields),
            events_compaction_config=EventsCompactionConfig(compaction_interval=1, overlap_size=0, summarizer=summarizer),
            **({"settings": settings} if settings is not None else {}),
        )

    def say(self, **budgets: Any) -> list[Event]:
        return run_turn(self.rt, f"q {LONG}", run_config=RunConfig(**budgets))

    def log(self) -> list[Event]:
        log = stored(self.rt)
        check_usage(self.rt, log)
        return log


def summaries(log: list[Event]) -> list[str]:
    return [event.actions.compaction.compacted_content.text for event in log if event.actions.compaction is not None]


MODES: list[dict[str, Any]] = [{}, {"at_limit": "ask"}, {"at_limit": "wrap_up"}]


@pytest.mark.parametrize("mode", [*MODES, {"model": "cheap"}])
def test_a_summary_is_made_where_there_is_room(deploy: Deploy, mode: dict[str, Any]) -> None:
    talk = Talk(deploy, "S1")
    with talk.rt:
        talk.say()
        assert talk.say(budget=Budget(llm_calls=2, **mode))[-1].text == "a1"
        assert summaries(talk.log()) == ["S1"]


@pytest.mark.parametrize("mode", MODES)
def test_where_there_is_room_for_the_answer_alone_there_is_no_summary(deploy: Deploy, mode: dict[str, Any]) -> None:
    talk = Talk(deploy, "never")
    with talk.rt:
        talk.say()
        assert talk.say(session_budget=Budget(tokens=ROOM_FOR_ANSWERS, **mode))[-1].text == "a1"
        assert talk.rt.turns.list(state="paused") == []
        counts = talk.rt.statistics().session.counts
        assert talk.writer.remaining == 1
        assert (counts["budget_left_out"], counts["budget_questions"], counts["budget_wrap_ups"]) == (1, 0, 0)
        assert summaries(talk.log()) == []


def test_a_turn_that_is_stopped_is_so_by_its_own_call(deploy: Deploy) -> None:
    talk = Talk(deploy, "never")
    with talk.rt:
        talk.say()
        with pytest.raises(BudgetExceededError, match="session"):
            talk.say(session_budget=Budget(llm_calls=1))
        assert talk.writer.remaining == 1
        assert talk.rt.statistics().session.counts["budget_refusals"] == 1


def test_a_turn_asks_for_its_own_call_and_summarises_with_what_it_is_given(deploy: Deploy) -> None:
    talk = Talk(deploy, "S1")
    with talk.rt:
        talk.say()
        talk.say(session_budget=Budget(llm_calls=1, at_limit="ask"))
        assert talk.writer.remaining == 1
        [question] = talk.rt.pending(user_id="ada")
        assert (question.args["limit"], question.args["used"]) == (1, 1)
        assert talk.rt.answer(question, {"llm_calls": 2}, user_id="ada", session_id="s1").result().text == "a1"
        assert summaries(talk.log()) == ["S1"]
        assert talk.rt.usage().total.llm_calls == 3


def test_the_last_answer_of_a_turn_that_has_to_end_is_no_summary(deploy: Deploy) -> None:
    talk = Talk(deploy, "never")
    with talk.rt:
        talk.say()
        assert talk.say(session_budget=Budget(llm_calls=1, at_limit="wrap_up"))[-1].text == "a1"
        assert talk.writer.remaining == 1
        assert summaries(talk.log()) == []
        assert talk.rt.usage().total.llm_calls == 2


def test_the_cheaper_model_writes_the_summary_too(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FACTORIES", registry.FACTORIES)
    talk = Talk(deploy, "never", before_agent_callback=name_cheap)
    with talk.rt:
        talk.say()
        assert talk.say(session_budget=Budget(llm_calls=1, model="cheap"))[-1].text == "cheap words"
        [summary] = [event for event in talk.log() if event.actions.compaction is not None]
        assert (summary.model_version, summaries([summary])) == ("cheap", ["cheap words"])
        assert talk.writer.remaining == 1
        calls = {name: sums.llm_calls for name, sums in talk.rt.usage(by="model").groups.items() if sums.llm_calls}
        assert calls == {"metered": 1, "cheap": 2}


def test_the_other_budgets_bound_the_cheaper_model_as_well(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FACTORIES", registry.FACTORIES)
    talk = Talk(deploy, "never", before_agent_callback=name_cheap)
    with talk.rt:
        talk.say()
        of_user = Budget(llm_calls=1, at_limit="wrap_up")
        answer = talk.say(session_budget=Budget(llm_calls=1, model="cheap"), user_daily_budget=of_user)[-1]
        assert answer.text == "cheap words"
        assert summaries(talk.log()) == []


def test_a_summary_whose_model_has_no_price_fails_a_turn_with_a_budget_of_money(deploy: Deploy) -> None:
    talk = Talk(deploy, "never", settings=Settings(prices={"metered": Price(input=1, output=1)}))
    with talk.rt:
        talk.say()
        with pytest.raises(NoPriceError, match="writer"):
            talk.say(budget=Budget(money=5))


def test_a_summary_that_is_empty_was_paid_for(deploy: Deploy) -> None:
    talk = Talk(deploy, LlmResponse())
    with talk.rt:
        talk.say()
        assert talk.say(budget=Budget(llm_calls=2))[-1].text == "a1"
        assert summaries(talk.log()) == []
        assert talk.rt.usage(by="model").groups["writer"].llm_calls == 1
