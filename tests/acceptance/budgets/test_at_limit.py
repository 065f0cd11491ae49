"""What happens where a budget is used up, by choice: a question, another model, a last answer (docs/costs.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import (
    AgentTool,
    Budget,
    CallbackContext,
    Content,
    Event,
    EventsCompactionConfig,
    LlmAgent,
    LlmEventSummarizer,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    Model,
    ParallelAgent,
    Price,
    RunConfig,
    SequentialAgent,
)
from actors.errors import BudgetExceededError, InvalidMessageError, NoPriceError
from actors.layers.listing.messages import PendingCall
from actors.testing import ScriptedModel
from runtime.driver.arguments import run_config_of
from runtime.driver.runtime import Runtime
from runtime.models import registry
from runtime.settings import Settings
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.stores.logged_usage import check_usage

LOOK: dict[str, Any] = {"call": "look"}
ASKS = RunConfig(budget=Budget(llm_calls=2, at_limit="ask"))


def look() -> str:
    """Look."""
    return "nothing"


def seeker(*replies: Any, name: str = "root", **fields: Any) -> LlmAgent:
    """An agent with a tool."""
    return LlmAgent(name=name, model=ScriptedModel(list(replies)), tools=[look], **fields)


def asked(rt: Runtime) -> list[PendingCall]:
    """The questions that wait."""
    return [call for call in rt.pending(user_id="ada") if call.name == "raygrove_request_budget"]


def answer(rt: Runtime, response: object) -> str:
    """Answer all questions at once. Returns the last text of the turn."""
    answers = {call.call_id: response for call in asked(rt)}
    return rt.answer(answers, user_id="ada", session_id="s1").result().text


def test_a_turn_that_asks_pauses_and_goes_on_with_as_much_again(deploy: Deploy) -> None:
    with deploy(seeker(LOOK, LOOK, LOOK, "done", "never")) as rt:
        run_turn(rt, "go", run_config=ASKS)
        [turn] = rt.turns.list()
        assert turn.state == "paused"
        [question] = asked(rt)
        assert question.agent == "root"
        assert question.is_confirmation
        assert question.args["budget"] == f"turn '{turn.invocation_id}'"
        assert (question.args["field"], question.args["limit"], question.args["used"]) == ("llm_calls", 2, 2)
        assert "llm_calls=2" in str(question.args["message"])
        assert answer(rt, True) == "done"
        used = rt.usage().total
        # The question is no call of a tool.
        assert (used.llm_calls, used.tool_calls) == (4, 3)
        check_usage(rt, stored(rt))


def test_more_is_as_much_as_the_answer_says_and_may_be_asked_for_again(deploy: Deploy) -> None:
    with deploy(seeker(LOOK, LOOK, LOOK, LOOK, LOOK, "done")) as rt:
        run_turn(rt, "go", run_config=ASKS)
        answer(rt, {"llm_calls": 1})
        [question] = asked(rt)
        assert (question.args["limit"], question.args["used"]) == (3, 3)
        assert answer(rt, {"confirmed": True, "payload": {"llm_calls": 3}}) == "done"


def test_no_ends_the_turn_as_a_budget_does_that_stops(deploy: Deploy) -> None:
    with deploy(seeker(LOOK, LOOK, LOOK, "done")) as rt:
        run_turn(rt, "go", run_config=ASKS)
        with pytest.raises(BudgetExceededError, match="llm_calls=2"):
            answer(rt, False)
        [turn] = rt.turns.list()
        # It may be retried, and asks again.
        rt.retry(user_id="ada", session_id="s1", invocation_id=turn.invocation_id).result()
        assert answer(rt, True) == "done"


@pytest.mark.parametrize(
    "wrong",
    [{"tokens": -1}, {"confirmed": "yes"}, {"tokn": 5}, {"llm_calls": 1, "model": "m"}, {"llm_calls": 10**30}, {"tokens": 1}, 5],
)
def test_an_answer_that_is_none_is_refused_and_the_question_waits(local: Deploy, wrong: object) -> None:
    with local(seeker(LOOK, LOOK, "done")) as rt:
        run_turn(rt, "go", run_config=ASKS)
        with pytest.raises(InvalidMessageError, match="so much more"):
            answer(rt, wrong)
        assert answer(rt, True) == "done"


def test_models_do_not_see_the_question(local: Deploy) -> None:
    seen: list[LlmRequest] = []
    root = seeker(LOOK, LOOK, "done", "again", before_model_callback=lambda context, request: seen.append(request))
    with local(root) as rt:
        run_turn(rt, "go", run_config=ASKS)
        answer(rt, True)
        run_turn(rt, "more")
    for request in seen:
        parts = [part for content in request.contents for part in content.parts]
        names = [call.name for part in parts if (call := part.function_call or part.function_response) is not None]
        assert set(names) <= {"look"}
        assert [tool.name for tool in request.tools] == ["look"]
    assert len(seen[-1].contents) == 7


def test_calls_of_tools_are_held_until_there_is_an_answer(deploy: Deploy) -> None:
    root = seeker({"parts": [LOOK, LOOK]}, {"parts": [LOOK, LOOK]}, "done", "never")
    with deploy(root) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(tool_calls=3, at_limit="ask")))
        assert len([response for event in stored(rt) for response in event.function_responses()]) == 2
        assert answer(rt, {"tool_calls": 1}) == "done"
        assert rt.usage().total.tool_calls == 4
        assert rt.usage().total.llm_calls == 3


def test_transfers_are_held_too(deploy: Deploy) -> None:
    root = LlmAgent(
        name="root",
        model=ScriptedModel([{"transfer": "other"}, "never"]),
        sub_agents=[seeker("hi", name="other", description="x")],
    )
    with deploy(root) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(tool_calls=0, at_limit="ask")))
        assert answer(rt, {"tool_calls": 1}) == "hi"


def test_agents_side_by_side_ask_each_and_answers_in_one_message_count_once(deploy: Deploy) -> None:
    children = [seeker(LOOK, LOOK, LOOK, f"done {number}", name=f"a{number}") for number in range(3)]
    with deploy(ParallelAgent(name="all", sub_agents=children)) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=6, at_limit="ask")))
        assert {call.agent for call in asked(rt)} == {"a0", "a1", "a2"}
        answer(rt, {"llm_calls": 3})
        assert rt.usage().total.llm_calls == 9
        answer(rt, {"llm_calls": 3})
        assert rt.usage().total.llm_calls == 12
        assert {event.text for event in stored(rt) if event.text} >= {"done 0", "done 1", "done 2"}
        check_usage(rt, stored(rt))


def test_in_a_sequence_it_goes_on_where_it_was(deploy: Deploy) -> None:
    root = SequentialAgent(name="all", sub_agents=[seeker("one", name="a"), seeker(LOOK, LOOK, "two", name="b")])
    with deploy(root) as rt:
        run_turn(rt, "go", run_config=ASKS)
        assert answer(rt, True) == "two"
        assert [event.text for event in stored(rt) if event.text] == ["go", "one", "two"]


def test_an_agent_that_is_asked_as_a_tool_cannot_pause_so_the_one_above_asks(deploy: Deploy) -> None:
    expert = seeker(LOOK, LOOK, name="expert")
    asking = LlmAgent(
        name="asking", model=ScriptedModel([{"call": "expert", "args": {"request": "?"}}, "done"]), tools=[AgentTool(expert)]
    )
    with deploy(asking) as rt:
        run_turn(rt, "go", run_config=ASKS)
        assert [call.agent for call in asked(rt)] == ["asking"]
        assert answer(rt, True) == "done"


def test_a_question_waits_beside_those_of_tools(deploy: Deploy) -> None:
    def approve() -> None:
        """Ask a person."""

    both = ParallelAgent(
        name="all",
        sub_agents=[
            LlmAgent(name="a", model=ScriptedModel([{"call": "approve"}, "approved"]), tools=[LongRunningFunctionTool(approve)]),
            seeker(LOOK, LOOK, "done", name="b"),
        ],
    )
    with deploy(both) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=3, at_limit="ask")))
        [other] = [call for call in rt.pending(user_id="ada") if call.name == "approve"]
        answer(rt, True)
        rt.answer({other.call_id: {"ok": True}}, user_id="ada", session_id="s1").result()
        assert {event.text for event in stored(rt)} >= {"approved", "done"}


def test_a_question_outlives_the_deployment(deploy: Deploy, tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    with deploy(seeker(LOOK, LOOK), session_store=store) as rt:
        run_turn(rt, "go", run_config=ASKS)
    with deploy(seeker("done"), session_store=store) as rt:
        assert answer(rt, True) == "done"


@pytest.mark.parametrize("kind", ["session_budget", "user_daily_budget"])
def test_budgets_of_sessions_and_users_ask_too_and_each_turn_for_itself(deploy: Deploy, kind: str) -> None:
    config = run_config_of({kind: {"llm_calls": 1, "at_limit": "ask"}})
    with deploy(seeker("a", "b", "c")) as rt:
        run_turn(rt, "go", run_config=config)
        run_turn(rt, "go", run_config=config)
        assert answer(rt, True) == "b"
        run_turn(rt, "go", run_config=config)
        assert asked(rt)[0].args["used"] == 2


def test_at_the_limit_another_model_is_called(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = MeteredModel(ScriptedModel([LOOK, "done", LOOK]))
    cheap.name = "cheap"
    monkeypatch.setattr("runtime.models.registry.FACTORIES", {"cheap": lambda name: cheap})
    config = RunConfig(budget=Budget(llm_calls=2, model="cheap"), session_budget=Budget(llm_calls=5))
    with local(seeker(LOOK, LOOK, LOOK, LOOK, "never")) as rt:
        assert run_turn(rt, "go", run_config=config)[-1].text == "done"
        calls = {name: sums.llm_calls for name, sums in rt.usage(by="model").groups.items() if sums.llm_calls}
        assert sorted(calls.values()) == [2, 2]
        assert calls["cheap"] == 2
        # The other budget stops that one as well.
        with pytest.raises(BudgetExceededError, match="session"):
            run_turn(rt, "go", run_config=config)


def test_at_the_limit_the_model_is_told_to_end(deploy: Deploy) -> None:
    with deploy(seeker(LOOK, LOOK, "as far as I got")) as rt:
        events = run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=2, at_limit="wrap_up")))
        assert events[-1].text == "as far as I got"
        assert rt.usage().total.llm_calls == 3


def test_what_an_agent_does_after_it_was_told_to_end_is_refused(deploy: Deploy) -> None:
    children = [seeker(*[LOOK] * 9, name=f"a{number}") for number in range(3)]
    with deploy(ParallelAgent(name="all", sub_agents=children)) as rt:
        with pytest.raises(BudgetExceededError):
            run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=4, at_limit="wrap_up")))
        assert 5 <= rt.usage().total.llm_calls <= 4 + 3


def test_tools_are_not_run_by_a_model_that_was_told_to_end(deploy: Deploy) -> None:
    with deploy(seeker(LOOK, LOOK, "done")) as rt:
        config = RunConfig(budget=Budget(tool_calls=1, at_limit="wrap_up"))
        assert run_turn(rt, "go", run_config=config)[-1].text == "done"
        responses = [response.response for event in stored(rt) for response in event.function_responses()]
        assert responses[0] == {"result": "nothing"}
        assert "End now" in responses[1]["error"]
    with deploy(seeker(LOOK, LOOK, LOOK, "never")) as rt, pytest.raises(BudgetExceededError):
        run_turn(rt, "go", run_config=config)


def test_the_model_hears_what_is_left(local: Deploy) -> None:
    heard: list[str] = []

    class Listening(ScriptedModel):
        async def generate(self, request: LlmRequest, *, stream: bool) -> Any:
            heard.append(request.system_instruction)
            async for response in super().generate(request, stream=stream):
                yield response

    root = LlmAgent(name="root", model=MeteredModel(Listening([LOOK, LOOK, "done"])), tools=[look], instruction="Seek.")
    with local(root) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(tokens=40, at_limit="wrap_up")))
    assert "Seek." in heard[-1]
    assert "tokens=40" in heard[-1]
    assert "End now" in heard[-1]
    assert "End now" not in heard[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"llm_calls": 1, "at_limit": "never"},
        {"at_limit": "ask"},
        {"llm_calls": 1, "at_limit": "ask", "model": "m"},
        {"tool_calls": 1, "model": "m"},
    ],
)
def test_a_budget_that_says_two_things_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Budget"):
        Budget(**wrong)


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
