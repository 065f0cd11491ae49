"""A turn that is run again from a step says the same as before, whichever step it is, and whichever actor is lost meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from actors import Content, Event, FunctionCall, LlmAgent, LlmRequest, LlmResponse, Part, RunConfig, ToolContext, Usage
from actors.messages.event import RESET, new_event_id
from runtime.driver.runtime import Runtime
from tests.acceptance.losses.test_losses import PLACES, play, told
from tests.acceptance.losses.trees import TREES
from tests.support.agents.failing_agents import decisions_in
from tests.support.agents.workflow_agents import answer
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import Deploy, run_turn, stored, stored_state

pytestmark = pytest.mark.full


def count(tool_context: ToolContext) -> int:
    """Count the calls."""
    tool_context.state["counted"] = number = tool_context.state.get("counted", 0) + 1
    return int(number)


class CallsTwice:
    """Calls a tool twice, and then says so."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Look at the responses so far."""
        responses = sum(part.function_response is not None for content in request.contents for part in content.parts)
        if responses == 2:
            yield LlmResponse(content=Content.of_text("done", role="model"), usage=Usage(prompt_token_count=1))
            return
        call = FunctionCall(id=f"call-{responses}-{new_event_id()}", name="count", args={})
        yield LlmResponse(content=Content(role="model", parts=(Part(function_call=call),)), usage=Usage(prompt_token_count=1))


def desk() -> LlmAgent:
    return LlmAgent(name="root", model=CallsTwice(), tools=[count])


def of_turn(log: list[Event], invocation_id: str) -> list[Event]:
    return [event for event in log if event.invocation_id == invocation_id]


def undecided(log: list[Event], place: int) -> set[str]:
    """Children whose failure a supervisor decides about after a place: they would fail once more, as in any other retry."""
    decided = [decision.split()[2] for decision in decisions_in(log[: place + 1])]
    supervised = {decision.split()[2] for decision in decisions_in(log)}
    failures = Counter(child_of(event, supervised) for event in log[: place + 1] if event.error_code)
    return {child for child in supervised if failures[child] > decided.count(child)}


def child_of(event: Event, supervised: set[str]) -> str | None:
    """The child that an event's author is, or is inside of: the failure of a step is that of its workflow."""
    inwards = [*(event.branch or "").split("."), event.author]
    return next((name for name in reversed(inwards) if name in supervised), None)


def reset(rt: Runtime, event: Event) -> None:
    """Run the turn of an event again from there."""
    assert event.invocation_id
    rt.retry(user_id="ada", session_id="s1", invocation_id=event.invocation_id, from_event=event.id).result()


def played(folder: Path, losses: list[Loss]) -> tuple[list[Event], object, float, LossyEngine]:
    """A turn of two calls that is run again after the first: its log, the state, and its model calls."""
    rt, engine = lossy_runtime(desk(), folder, losses)
    with rt:
        [*_] = run_turn(rt, "go", run_config=RunConfig(timeout=30), invocation_id="e-1")
        before = of_turn(stored(rt), "e-1")
        reset(rt, before[2])
        log = of_turn(stored(rt), "e-1")
        assert [event.id for event in log[:3]] == [event.id for event in before[:3]]
        # Sent again, the request took nothing back twice: two epochs of the turn, and one more for each loss.
        told_resets = [event for event in stored(rt) if (event.custom_metadata or {}).get(RESET)]
        assert len(told_resets) == 1
        assert rt.turns.get("ada", "s1", "e-1").state == "finished"
        return log, stored_state(rt)["counted"], rt.usage("ada").total.llm_calls, engine


@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_it_is_taken_back_once(who: Victim) -> None:
    with quick_folder() as folder:
        expected, counted, calls, engine = played(Path(folder), [])
        messages = engine.messages
    assert (counted, calls) == (2, 5)
    lost: Counter[str] = Counter()
    for at in range(messages):
        # Before one message and after the next; of the actors half begin with before.
        before = (at + get_args(Victim).index(who)) % 2 == 0
        with quick_folder() as folder:
            log, counted, used, engine = played(Path(folder), [Loss(at, who, before)])
            assert (told(log), counted, used) == (told(expected), 2, calls), (at, before, engine.lost)
            lost.update(engine.lost)
    assert lost


@pytest.mark.sampled(full=3)
@pytest.mark.parametrize("name", TREES)
def test_from_whichever_step_of_whichever_tree_a_turn_says_the_same(name: str) -> None:
    with quick_folder() as folder:
        rt, _ = lossy_runtime(TREES[name](), Path(folder))
        last = play(rt)[-1].invocation_id
        assert last
        with Deploy("local", Path(folder))(TREES[name]()) as rt:
            log = of_turn(stored(rt), last)
            # After a failure that stays it would be a retry, and fail once more.
            steps = [place for place, event in enumerate(log) if not event.error_code and not undecided(log, place)]
            for place in steps[:: max(1, len(steps) // PLACES)]:
                now = of_turn(stored(rt), last)
                if now[place].error_code or undecided(now, place):
                    # Since the reset before, children that run side by side stand in another order.
                    continue
                reset(rt, now[place])
                if rt.turns.get("ada", "s1", last).state == "paused":
                    # The answer was taken back, too, or what the user has said to a task.
                    waits = rt.pending(user_id="ada", session_id="s1")
                    run_turn(rt, answer(rt, "h") if waits else "more")
                assert told(of_turn(stored(rt), last)) == told(log), (place, log[place])
