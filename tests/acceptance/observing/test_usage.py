"""`rt.usage`: tokens, calls, seconds and money of whatever agents do, as the log has it (docs/costs.md)."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from actors import (
    AgentTool,
    CallbackContext,
    Content,
    LlmAgent,
    LlmResponse,
    LongRunningFunctionTool,
    ParallelAgent,
    Price,
    SequentialAgent,
    Usage,
)
from actors.errors import AgentFailedError, DefinitionError, RequestError
from actors.testing import ScriptedModel
from runtime.models.fallback import FallbackModel
from runtime.settings import Settings
from runtime.stores.transfer.tables import WholeStore, copy_store
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.stores.logged_usage import check_usage

PRICES = Settings(prices={"metered": Price(input=1, output=10)})


def says(name: str, *replies: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=MeteredModel(ScriptedModel(list(replies))), **fields)


def look(query: str) -> str:
    """Look something up."""
    time.sleep(0.02)
    return query


def ask() -> None:
    """Ask a person."""


CALL = {"call": "look", "args": {"query": "q"}}


def test_all_agents_of_a_turn_count_whoever_has_asked_them(deploy: Deploy) -> None:
    expert = says("expert", CALL, "it is so", tools=[look])
    asking = says("asking", {"call": "expert", "args": {"request": "how?"}}, "so", tools=[AgentTool(expert)])
    beside = ParallelAgent(name="beside", sub_agents=[says("left", "l"), says("right", CALL, "r", tools=[look])])
    with deploy(SequentialAgent(name="all", sub_agents=[asking, beside]), settings=PRICES) as rt:
        run_turn(rt, "go")
        report = rt.usage("ada", by="agent")
        counts = {name: (sums.llm_calls, sums.tool_calls) for name, sums in report.groups.items()}
        assert counts == {"asking": (2, 1), "expert": (2, 1), "left": (1, 0), "right": (2, 1)}
        assert (report.total.llm_calls, report.total.tool_calls) == (7, 3)
        assert (report.total.output_tokens, report.total.reasoning_tokens) == (7 * 3, 7 * 2)
        cost = (report.total.input_tokens * 1 + (report.total.output_tokens + report.total.reasoning_tokens) * 10) / 1_000_000
        assert report.total.money == pytest.approx(cost)
        assert (report.currency, list(report.unpriced)) == ("USD", [])
        # The time that the agent's question takes is the expert's.
        assert report.groups["expert"].seconds >= 0.02
        assert report.groups["asking"].seconds < report.groups["expert"].seconds + 0.02
        check_usage(rt, stored(rt), PRICES.prices)


def test_usage_is_told_by_user_session_turn_day_and_model(deploy: Deploy) -> None:
    with deploy(says("root", *"abcd")) as rt:
        before = datetime.now(UTC)
        for user, session in (("ada", "s1"), ("ada", "s1"), ("ada", "s2"), ("bob", "s1")):
            [event] = run_turn(rt, "hi", session, user)
        counts = {name: sums.llm_calls for name, sums in rt.usage(by="user").groups.items()}
        assert counts == {"ada": 3, "bob": 1}
        assert rt.usage().total.llm_calls == 4
        assert rt.usage("ada", "s1").total.llm_calls == 2
        assert rt.usage("bob", "s1", event.invocation_id).total.llm_calls == 1
        assert rt.usage("carl").total.llm_calls == rt.usage("ada", "s3").total.llm_calls == 0
        days = {(before + timedelta(days=number)).date().isoformat() for number in (0, 1)}
        assert set(rt.usage("ada", by="day").groups) <= days
        assert list(rt.usage("ada", by="model").groups)[-1] == "metered"
        costly = rt.usage(by="turn").turns
        assert {(each.user_id, each.session_id) for each in costly} == {("ada", "s1"), ("ada", "s2"), ("bob", "s1")}
        assert [each.sums.tokens for each in costly] == sorted((each.sums.tokens for each in costly), reverse=True)
        [bobs] = rt.usage("bob", by="turn").turns
        assert (bobs.invocation_id, bobs.sums) == (event.invocation_id, rt.usage("bob").total)
        assert rt.usage(since=before - timedelta(minutes=1)) == rt.usage(since=before.timestamp() - 60) == rt.usage()
        assert rt.usage(since=before + timedelta(hours=1)).total.llm_calls == 0


def test_a_turn_that_goes_on_is_counted_as_far_as_it_is(local: Deploy) -> None:
    is_there, may_go_on = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        is_there.set()
        may_go_on.wait(30)
        return "done"

    with local(says("root", {"call": "wait"}, "end", tools=[wait])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        assert is_there.wait(30)
        assert (rt.usage().total.llm_calls, rt.usage().total.tool_calls) == (1, 1)
        may_go_on.set()
        assert turn.result().text == "end"
        assert rt.usage().total.llm_calls == 2


def test_turns_that_fail_and_are_retried_pause_and_are_rewound_count_all_that_was_paid(deploy: Deploy) -> None:
    root = says("root", CALL, ValueError("not now"), "now", {"call": "ask"}, "so", tools=[look, LongRunningFunctionTool(ask)])
    with deploy(root) as rt:
        with pytest.raises(AgentFailedError):
            run_turn(rt, "go", invocation_id="e-1")
        assert rt.usage("ada", "s1", "e-1").total.llm_calls == 1
        assert rt.retry(user_id="ada", session_id="s1", invocation_id="e-1").result().text == "now"
        assert rt.usage("ada", "s1", "e-1").total.llm_calls == 2
        run_turn(rt, "ask", invocation_id="e-2")
        assert rt.usage("ada", "s1", "e-2").total.llm_calls == 1
        [pending] = rt.pending(user_id="ada")
        rt.answer({pending.call_id: {"ok": True}}, user_id="ada", session_id="s1").result()
        assert rt.usage("ada", "s1", "e-2").total.llm_calls == 2
        check_usage(rt, stored(rt))
        before = rt.usage()
        rt.sessions.rewind("ada", "s1", "e-1")
        assert rt.usage() == before
        assert rt.usage("ada", "s1", "e-1").total.llm_calls == 2


def test_what_is_deleted_is_not_counted_any_more(deploy: Deploy) -> None:
    with deploy(says("root", *"abc")) as rt:
        for user, session in (("ada", "s1"), ("ada", "s2"), ("bob", "s1")):
            run_turn(rt, "hi", session, user)
        rt.sessions.delete("ada", "s1")
        assert {name: sums.llm_calls for name, sums in rt.usage(by="user").groups.items()} == {"ada": 1, "bob": 1}
        rt.users.delete("ada")
        assert list(rt.usage(by="user").groups) == ["bob"]


def test_sums_are_there_after_a_restart_and_in_copies_of_the_store(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(says("root", CALL, "a", tools=[look])) as rt:
        run_turn(rt, "hi")
        before = rt.usage(by="agent")
    copy = f"sqlite:///{tmp_path}/copy.db"
    copy_store(WholeStore(f"sqlite:///{tmp_path}/sessions.db", f"sqlite:///{tmp_path}/memory.db"), WholeStore(copy))
    for options in ({}, {"session_store": copy}):
        with deploy(says("root"), **options) as rt:
            assert rt.usage(by="agent") == before


def test_turns_of_stores_that_had_no_sums_are_read_from_their_events(local: Deploy, tmp_path: Path) -> None:
    with local(says("root", CALL, "a", "b", tools=[look])) as rt:
        for _ in range(2):
            run_turn(rt, "hi")
        before = [rt.usage(by="agent"), rt.usage("ada", by="day"), rt.usage("ada", "s1")]
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        assert connection.execute("UPDATE raygrove_turns SET usage = x''").rowcount == 2
        connection.commit()
    with local(says("root")) as rt:
        assert [rt.usage(by="agent"), rt.usage("ada", by="day"), rt.usage("ada", "s1")] == before


def test_archived_events_change_nothing(local: Deploy) -> None:
    with local(says("root", *["hi"] * 70)) as rt:
        for _ in range(70):
            run_turn(rt, "hi")
        before = rt.usage(by="agent")
        assert rt.sessions.archive(0.001).events
        assert rt.usage(by="agent") == before


def test_figures_of_the_deployment_count_tokens_as_they_come(deploy: Deploy) -> None:
    with deploy(says("root", CALL, "hi", tools=[look])) as rt:
        run_turn(rt, "hi")
        counts, total = rt.statistics().session.counts, rt.usage().total
        for name in ("llm_calls", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
            assert counts[name] == getattr(total, name) > 0


def test_a_response_that_a_callback_replaces_was_paid_for(local: Deploy) -> None:
    def replace(callback_context: CallbackContext, llm_response: LlmResponse) -> LlmResponse:
        return LlmResponse(content=Content.of_text("mine", role="model"))

    with local(says("root", "yours", after_model_callback=replace)) as rt:
        assert [event.text for event in run_turn(rt, "hi")] == ["mine"]
        assert rt.usage(by="model").groups["metered"].output_tokens == 3


def test_a_model_that_is_not_asked_costs_nothing(local: Deploy) -> None:
    def answer(callback_context: CallbackContext, llm_request: Any) -> LlmResponse:
        return LlmResponse(content=Content.of_text("mine", role="model"))

    with local(says("root", before_model_callback=answer)) as rt:
        assert [event.text for event in run_turn(rt, "hi")] == ["mine"]
        assert rt.usage().total.llm_calls == 0


def test_a_model_that_says_nothing_is_paid_for_its_thoughts(local: Deploy) -> None:
    model = ScriptedModel([LlmResponse(usage=Usage(prompt_token_count=5, thoughts_token_count=70))] * 2)
    with local(LlmAgent(name="root", model=model)) as rt:
        assert [event.error_code for event in run_turn(rt, "hi")] == [None, "MODEL_RETURNED_NO_CONTENT"]
        assert (rt.usage().total.input_tokens, rt.usage().total.reasoning_tokens) == (10, 140)


def test_of_several_models_the_one_that_answers_is_paid(local: Deploy) -> None:
    first = MeteredModel(ScriptedModel([ConnectionError("down")]), "large")
    model = FallbackModel([first, MeteredModel(ScriptedModel(["hi"]), "small")])
    with local(LlmAgent(name="root", model=model)) as rt:
        run_turn(rt, "hi")
        assert [model for model in rt.usage(by="model").groups if model] == ["small"]


def test_pages_of_a_whole_app_are_added_up(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.stores.sql.usage.PAGE", 2)
    with local(says("root", *"abcdefg")) as rt:
        for number in range(7):
            run_turn(rt, "hi", f"s{number % 3}", f"u{number % 2}")
        assert {name: sums.llm_calls for name, sums in rt.usage(by="user").groups.items()} == {"u0": 4, "u1": 3}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"session_id": "s1"}, "give user_id"),
        ({"user_id": "ada", "invocation_id": "e-1"}, "give user_id and session_id"),
        ({"by": "week"}, "agent, model, user, day"),
        ({"since": "yesterday"}, "since"),
    ],
)
def test_wrong_arguments_are_named(local: Deploy, wrong: dict[str, Any], says: str) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel([]))) as rt, pytest.raises(RequestError, match=says):
        rt.usage(**wrong)


def test_prices_in_two_currencies_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DefinitionError, match="EUR and USD"):
        Settings(prices={"a": Price(input=1, output=1), "b": Price(input=1, output=1, currency="EUR")})
    monkeypatch.setenv("RAYGROVE_PRICES", '{"gemini-*": {"input": 0.5, "output": 3, "currency": "EUR"}}')
    assert Settings().prices["gemini-*"] == Price(input=0.5, output=3, currency="EUR")
