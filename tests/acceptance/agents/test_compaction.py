"""Long conversations are summarised: requests begin with the summary, the log keeps all (semantics.md 5.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors import (
    AgentTool,
    Content,
    Event,
    EventsCompactionConfig,
    LlmAgent,
    LlmEventSummarizer,
    LongRunningFunctionTool,
    ParallelAgent,
    Part,
    RunConfig,
    SequentialAgent,
    Usage,
)
from actors.errors import DefinitionError, LlmCallsLimitExceededError
from actors.testing import ScriptedModel
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.stores.logged_usage import check_usage

LONG = "something that takes many words to say, and can be said in fewer of them " * 2


def turns(interval: int, overlap: int = 0, **more: Any) -> EventsCompactionConfig:
    return EventsCompactionConfig(compaction_interval=interval, overlap_size=overlap, **more)


def by(*summaries: Any) -> tuple[LlmEventSummarizer, ScriptedModel]:
    model = ScriptedModel(list(summaries))
    return LlmEventSummarizer(model), model


def texts(contents: Sequence[Content]) -> list[str]:
    return [content.text[:20] for content in contents]


def summaries(log: Sequence[Event]) -> list[tuple[int, int, str]]:
    found = [event.actions.compaction for event in log]
    return [(each.start_seq, each.end_seq, each.compacted_content.text) for each in found if each is not None]


def test_requests_begin_with_the_summary_and_the_log_keeps_all(deploy: Deploy) -> None:
    summarizer, writer = by("S1", "S2")
    model = ScriptedModel([f"a{number}" for number in range(6)])
    root = LlmAgent(name="root", model=model)
    with deploy(root, events_compaction_config=turns(2, 1, summarizer=summarizer)) as rt:
        for number in range(6):
            run_turn(rt, f"q{number} {LONG}")
        log = stored(rt)
        session = rt.sessions.get("ada", "s1")
    assert [event.text[:2] for event in log if event.content] == [f"{who}{number}" for number in range(6) for who in "qa"]
    assert summaries(log) == [(1, 4, "S1"), (3, 9, "S2")]
    assert [texts(request.contents)[:1] for request in model.requests[:3]] == [[f"q0 {LONG}"[:20]], [f"q0 {LONG}"[:20]], ["S1"]]
    # The second summary is of one turn of the first as well, so both stand.
    assert [text[:2] for text in texts(model.requests[4].contents)] == ["S1", "S2", "q4"]
    assert [text[:2] for text in texts(model.requests[5].contents)] == ["S1", "S2", "q4", "a4", "q5"]
    assert "user: q0" in writer.requests[0].contents[0].text
    assert "root: a1" in writer.requests[0].contents[0].text
    assert session is not None


def test_by_tokens_one_summary_stands_for_all_that_came_before(deploy: Deploy) -> None:
    summarizer, writer = by(*(f"S{number}" for number in range(9)))
    model = MeteredModel(ScriptedModel([f"a{number}" for number in range(6)]))
    config = EventsCompactionConfig(token_threshold=10, event_retention_size=2, summarizer=summarizer)
    with deploy(LlmAgent(name="root", model=model), events_compaction_config=config) as rt:
        for number in range(4):
            run_turn(rt, f"q{number} {LONG}")
        log = stored(rt)
    assert summaries(log)
    starts = {start for start, _, _ in summaries(log)}
    assert starts == {1}
    assert "S0" in writer.requests[1].contents[0].text


def test_what_summaries_use_is_counted_and_limited(deploy: Deploy) -> None:
    writer = MeteredModel(ScriptedModel(["S1"]))
    root = LlmAgent(name="root", model=MeteredModel(ScriptedModel(["a0", "a1", "a2"])))
    config = turns(1, summarizer=LlmEventSummarizer(writer))
    with deploy(root, events_compaction_config=config) as rt:
        run_turn(rt, f"q0 {LONG}")
        with pytest.raises(LlmCallsLimitExceededError):
            run_turn(rt, "q1", run_config=RunConfig(max_llm_calls=1))
        log = stored(rt)
        check_usage(rt, log)
        assert rt.usage("ada", "s1").total.llm_calls == 2
    [summary] = [event for event in log if event.actions.compaction is not None]
    assert isinstance(summary.usage, Usage)
    assert (summary.author, summary.content, summary.is_final_response()) == ("root", None, False)


def look() -> str:
    """Look."""
    return "seen"


def test_a_summary_that_fails_costs_no_turn(deploy: Deploy) -> None:
    model = ScriptedModel(["a0", {"call": "look", "args": {}}, "a1"])
    summarizer, writer = by(ValueError("no words"), "too late")
    root = LlmAgent(name="root", model=model, tools=[look])
    with deploy(root, events_compaction_config=turns(1, summarizer=summarizer)) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, "q1")
        assert summaries(stored(rt)) == []
    assert texts(model.requests[2].contents)[:3] == [f"q0 {LONG}"[:20], "a0", "q1"]
    # In this run it is not tried again.
    assert writer.remaining == 1


def of_length(events: Sequence[Event]) -> Content:
    return Content(role="user", parts=[Part(text=f"{len(events)} events")])


def test_a_function_may_write_summaries(deploy: Deploy) -> None:
    model = ScriptedModel(["a0", "a1"])
    with deploy(LlmAgent(name="root", model=model), events_compaction_config=turns(1, summarizer=of_length)) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, "q1")
    assert [(content.role, content.text) for content in model.requests[1].contents] == [("model", "2 events"), ("user", "q1")]


def ask() -> dict[str, str]:
    """Ask somebody."""
    return {"status": "pending"}


def test_the_answer_to_a_call_that_was_summarised_brings_the_call_back(deploy: Deploy) -> None:
    asks = {"call": "ask", "args": {}, "id": "c1"}
    model = ScriptedModel([asks, "asked", "a1", "a2", "answered"])
    root = LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(ask)])
    summarizer, _ = by("S1", "S2", "S3", "S4")
    with deploy(root, events_compaction_config=turns(1, summarizer=summarizer)) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, f"q1 {LONG}")
        run_turn(rt, f"q2 {LONG}")
        assert (1, 4) in [(start, end) for start, end, _ in summaries(stored(rt))]
        [pending] = rt.pending(user_id="ada", session_id="s1")
        rt.answer(pending, {"status": "done"}).result()
    last = model.requests[-1].contents
    calls = [call for content in last for call in content.function_calls()]
    assert [call.id for call in calls] == ["c1"]
    assert [response.response for content in last for response in content.function_responses()][-1] == {"status": "done"}


def test_of_agents_side_by_side_one_summarises(deploy: Deploy) -> None:
    summarizer, writer = by("S1", "not this")
    agents = [LlmAgent(name=name, model=ScriptedModel(["a0 " + LONG, "a1"])) for name in "xyz"]
    root = ParallelAgent(name="root", sub_agents=agents)
    with deploy(root, events_compaction_config=turns(1, summarizer=summarizer)) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, "q1")
        log = stored(rt)
    assert len(summaries(log)) == 1
    assert writer.remaining == 1
    [summary] = [event for event in log if event.actions.compaction is not None]
    assert summary.author == "x"


def test_an_agent_that_is_a_tool_neither_summarises_nor_sees_summaries(deploy: Deploy) -> None:
    summarizer, writer = by("S1", "S2", "S3")
    helper_model = ScriptedModel(["h0", "h1"])
    helper = LlmAgent(name="helper", model=helper_model)
    asks = {"call": "helper", "args": {"request": LONG}}
    root = LlmAgent(name="root", model=ScriptedModel([asks, "a0", asks, "a1"]), tools=[AgentTool(helper)])
    with deploy(root, events_compaction_config=turns(1, summarizer=summarizer)) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, "q1")
        log = stored(rt)
    assert [event.author for event in log if event.actions.compaction is not None] == ["root"]
    assert "helper: h0" not in writer.requests[0].contents[0].text
    assert [texts(request.contents) for request in helper_model.requests] == [[LONG[:20]], [LONG[:20]]]


def test_after_a_rewind_a_summary_is_gone_with_its_turn(deploy: Deploy) -> None:
    summarizer, _ = by("S1", "S2")
    model = ScriptedModel(["a0", "a1", "b1"])
    with deploy(LlmAgent(name="root", model=model), events_compaction_config=turns(1, summarizer=summarizer)) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, f"q1 {LONG}", invocation_id="e-second")
        rt.sessions.rewind("ada", "s1", "e-second")
        run_turn(rt, f"r1 {LONG}")
    assert texts(model.requests[1].contents)[0] == "S1"
    assert [text[:2] for text in texts(model.requests[2].contents)] == ["S2", "r1"]


def test_a_deployment_without_the_setting_shows_the_summaries_that_are_there(deploy: Deploy) -> None:
    summarizer, _ = by("S1")
    with deploy(
        LlmAgent(name="root", model=ScriptedModel(["a0", "a1"])), events_compaction_config=turns(1, summarizer=summarizer)
    ) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, "q1")
    model = ScriptedModel(["a2"])
    with deploy(LlmAgent(name="root", model=model)) as rt:
        run_turn(rt, "q2")
    assert texts(model.requests[0].contents) == ["S1", "q1", "a1", "q2"]


def test_by_default_the_model_of_the_root_writes_summaries(deploy: Deploy) -> None:
    model = ScriptedModel(["a0", "S1", "a1"])
    with deploy(LlmAgent(name="root", model=model), events_compaction_config=turns(1)) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, "q1")
    assert [text[:5] for text in texts(model.requests[1].contents)] == ["Below"]
    assert texts(model.requests[2].contents) == ["S1", "q1"]


def test_agents_of_a_sequence_read_one_summary(deploy: Deploy) -> None:
    summarizer, _ = by("S1")
    models = [ScriptedModel(["a0", "a1"]), ScriptedModel(["b0", "b1"])]
    root = SequentialAgent(
        name="root", sub_agents=[LlmAgent(name=name, model=model) for name, model in zip("xy", models, strict=True)]
    )
    with deploy(root, events_compaction_config=turns(1, summarizer=summarizer)) as rt:
        run_turn(rt, f"q0 {LONG}")
        run_turn(rt, "q1")
    assert [texts(model.requests[1].contents)[:2] for model in models] == [["S1", "q1"], ["S1", "q1"]]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "give compaction_interval"),
        ({"compaction_interval": 2}, "compaction_interval needs overlap_size"),
        ({"event_retention_size": 2}, "event_retention_size needs token_threshold"),
        ({"compaction_interval": 0, "overlap_size": 0}, "compaction_interval must be a whole number from 1 on"),
        ({"token_threshold": 1.5, "event_retention_size": 0}, "token_threshold must be"),
        ({"compaction_interval": 1, "overlap_size": 0, "summarizer": "gemini"}, "summarizer must be"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        EventsCompactionConfig(**given)
