"""Whatever is lost at whichever message: a conversation is summarised as often, of the same, models are asked once more, and one
that says nothing is asked again once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from actors import (
    CallbackContext,
    Event,
    EventsCompactionConfig,
    LlmAgent,
    LlmEventSummarizer,
    LlmRequest,
    LlmResponse,
    Model,
    RunConfig,
    Usage,
)
from actors.errors import AgentFailedError, LlmCallsLimitExceededError
from actors.testing import PatternModel
from tests.support.fixtures.lossy_engine import Loss, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import run_turn, stored
from tests.support.stores.logged_usage import check_usage


class CountingModel:
    """Another model, for the local engine.

    Attributes:
        calls: how often it was asked.
    """

    def __init__(self, model: Model, name: str = "counting") -> None:
        self._model = model
        self.name = name
        self.calls = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the responses of the other model."""
        self.calls += 1
        async for response in self._model.generate(request, stream=stream):
            yield response


PLACES = 6
"""How many messages each actor is lost at. All messages were tried once; every run tries these."""

LONG = "something that takes many words to say, and can be said in fewer of them"


def count(tool_context: Any) -> str:
    """Count."""
    tool_context.state["count"] = tool_context.state.get("count", 0) + 1
    return f"{tool_context.state['count']}"


def play(losses: list[Loss]) -> tuple[list[Any], int, int, set[str]]:
    """Four turns of an agent that calls a tool, and is summarised by turns and by tokens.

    Returns:
        The log without ids and times, how often models were asked, how many messages were sent, and what was lost.
    """
    writer = CountingModel(PatternModel([], default="the summary"))
    model = CountingModel(PatternModel([("call", {"call": "count", "args": {}})], default=LONG))
    config = EventsCompactionConfig(
        compaction_interval=1,
        overlap_size=1,
        token_threshold=60,
        event_retention_size=1,
        summarizer=LlmEventSummarizer(writer),
    )
    with quick_folder() as folder:
        root = LlmAgent(name="root", model=model, tools=[count])
        rt, engine = lossy_runtime(root, Path(folder), losses, events_compaction_config=config)
        with rt:
            for message in (LONG, f"call {LONG}", LONG, f"call {LONG}"):
                run_turn(rt, message, run_config=RunConfig(timeout=30))
            log = stored(rt)
            check_usage(rt, log)
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert len({event.id for event in log}) == len(log)
    return [_told(event) for event in log], writer.calls + model.calls, engine.messages, set(engine.lost)


def in_a_turn(most: int, losses: Sequence[Loss] = ()) -> tuple[int, int, set[str]]:
    """A turn that may make so many model calls, in which a summary is made before others: how many it made, or one more.

    Returns:
        The calls of the turn, how many messages were sent, and what was lost.
    """
    model = CountingModel(PatternModel([("call", {"call": "count", "args": {}})], default=LONG))
    writer = CountingModel(PatternModel([], default="the summary"))
    config = EventsCompactionConfig(compaction_interval=1, overlap_size=0, summarizer=LlmEventSummarizer(writer))
    with quick_folder() as folder:
        root = LlmAgent(name="root", model=model, tools=[count])
        rt, engine = lossy_runtime(root, Path(folder), losses, events_compaction_config=config)
        with rt:
            run_turn(rt, LONG)
            before = writer.calls + model.calls
            try:
                run_turn(rt, f"call {LONG}", run_config=RunConfig(timeout=30, max_llm_calls=most))
                made = writer.calls + model.calls - before
            except (LlmCallsLimitExceededError, AgentFailedError) as error:
                # Its event may be all that is left of the failure.
                made = most + 1 if "max_llm_calls" in str(error) else 0
    return made, engine.messages, set(engine.lost)


@pytest.mark.full
@pytest.mark.sampled(full=3)
@pytest.mark.parametrize("who", get_args(Victim))
def test_summaries_count_for_the_limit_of_calls_also_after_losses(who: Victim) -> None:
    needed, _, _ = in_a_turn(100)
    assert needed == 3
    _, messages, _ = in_a_turn(needed - 1)
    lost: set[str] = set()
    for at in range(messages):
        for before in (True, False):
            # It may not end: one call is missing.
            calls, _, gone = in_a_turn(needed - 1, [Loss(at, who, before)])
            assert calls == needed, (at, before, gone)
            lost |= gone
    assert lost


def _told(event: Event) -> Any:
    compaction = event.actions.compaction
    summary = (compaction.start_seq, compaction.end_seq, compaction.compacted_content.text) if compaction is not None else None
    responses = [response.response for response in event.function_responses()]
    return event.author, event.text, [call.name for call in event.function_calls()], responses, summary, event.error_code


@pytest.mark.sampled(3, full=2)
@pytest.mark.parametrize("who", get_args(Victim))
def test_summaries_are_neither_repeated_nor_lost(who: Victim) -> None:
    expected, asked, messages, _ = play([])
    assert sum(each[4] is not None for each in expected) >= 3
    lost: set[str] = set()
    for at in range(0, messages, max(1, messages // PLACES)):
        for before in (True, False):
            said, calls, _, gone = play([Loss(at, who, before)])
            assert said == expected, (at, before)
            assert calls <= asked + 1, (at, before)
            lost |= gone
    assert lost


class Silent:
    """Says nothing, and is paid for it."""

    name = "silent"

    def __init__(self) -> None:
        self.calls = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.calls += 1
        yield LlmResponse(finish_reason="STOP", usage=Usage(prompt_token_count=3))


def nothing(callback_context: CallbackContext) -> None:
    """Do nothing. Because of it the last event of a run is not its end."""


@pytest.mark.sampled(4, full=3)
@pytest.mark.parametrize("has_callback", [False, True])
@pytest.mark.parametrize("who", get_args(Victim))
def test_it_is_asked_again_once_whichever_actor_is_lost(tmp_path: Path, who: Victim, has_callback: bool) -> None:
    def play(folder: Path, losses: list[Loss]) -> int:
        folder.mkdir()
        model = Silent()
        rt, engine = lossy_runtime(
            LlmAgent(name="a", model=model, after_agent_callback=nothing if has_callback else None), folder, losses
        )
        with rt:
            result = rt.run(user_id="ada", session_id="s1", message="hi").result()
        assert result.error_code == "MODEL_RETURNED_NO_CONTENT"
        assert [event.error_code for event in result.events].count("MODEL_RETURNED_NO_CONTENT") == 1
        assert 2 <= model.calls <= 2 + 2 * len(engine.lost)
        return engine.messages

    for at in range(play(tmp_path / "whole", [])):
        for is_before in (True, False):
            play(tmp_path / f"{at} {is_before}", [Loss(at, who, is_before)])
