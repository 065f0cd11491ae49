"""A turn says the same whichever actor is lost, and at whichever message (docs/architecture.md)."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors import Event, LlmAgent, RunConfig
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.acceptance.losses.trees import TREES
from tests.support.agents.failing_agents import decisions_in
from tests.support.agents.workflow_agents import answer, short
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import run_turn, stored, stored_state
from tests.support.stores.logged_usage import check_usage
from tests.support.tries import tries

PLACES = 3
"""How many messages of each tree each actor is lost at. All messages were tried once; every run tries these."""


def play(rt: Runtime) -> list[Event]:
    """Two turns: the second answers the open calls, or sends one more message."""
    with rt:
        config = RunConfig(timeout=30)
        first = run_turn(rt, "go", run_config=config, invocation_id="e-first")
        waits = any(event.long_running_tool_ids or event.actions.requested_inputs for event in first)
        second = run_turn(rt, answer(rt, "h") if waits else "more", run_config=config)
        log = stored(rt)
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        assert len({event.id for event in log}) == len(log)
        assert [event.id for event in first + second] == [event.id for event in log if event.author != "user"]
        assert [value for key, value in stored_state(rt).items() if key.startswith("temp:")] == []
        check_usage(rt, log)
        return log


def is_note(event: Event) -> bool:
    return event.actions.agent_state is not None and not decisions_in([event])


def told(log: list[Event]) -> Any:
    """A log without ids and times, branch by branch, since parallel branches may interleave in any order.

    Decisions about different children may interleave as well; those about one child may not.
    """
    branches: dict[str | None, list[str]] = {}
    for event in log:
        if not is_note(event):
            branches.setdefault(about(event), []).append(_told(event))
    return branches


def about(event: Event) -> str | None:
    """The branch of an event, without the random ends of calls' ids; of a decision, the child that it is about."""
    if decisions_in([event]):
        return " about ".join(decisions_in([event])[0].split()[0:3:2])
    return _RANDOM_END.sub("", event.branch) if event.branch is not None else None


_RANDOM_END = re.compile(r"-[0-9a-f]{10}\b")


def _told(event: Event) -> str:
    if event.node_info is not None:
        said = f"{event.node_info} {event.text} {event.output} {event.actions} {event.error_code}"
        return _RANDOM_END.sub("", said)
    if event.text:
        return short([event])[0]
    if decisions_in([event]):
        return decisions_in([event])[0]
    calls = [(call.name, dict(call.args or {})) for call in event.function_calls()]
    answers = [response.response for response in event.function_responses()]
    questions = [asked.question for asked in event.actions.requested_inputs.values()]
    return f"{event.author} {calls} {answers} {event.error_code} {dict(event.actions.state_delta)}{questions}"


@cache
def undisturbed(name: str) -> tuple[Any, int, int]:
    with quick_folder() as folder:
        rt, engine = lossy_runtime(TREES[name](), Path(folder))
        return told(play(rt)), engine.messages, len(engine.decisions)


def with_losses(name: str, losses: list[Loss]) -> tuple[Any, LossyEngine]:
    with quick_folder() as folder:
        rt, engine = lossy_runtime(TREES[name](), Path(folder), losses)
        return told(play(rt)), engine


@pytest.mark.sampled(29, full=17)
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_the_turn_says_the_same(name: str, who: Victim) -> None:
    expected, messages, _ = undisturbed(name)
    lost: Counter[str] = Counter()
    for number, at in enumerate(range(0, messages, max(1, messages // PLACES))):
        # Before one message and after the next; of the actors half begin with before.
        before = (number + get_args(Victim).index(who)) % 2 == 0
        said, engine = with_losses(name, [Loss(at, who, before)])
        assert said == expected, (at, before, engine.lost)
        lost.update(engine.lost)
    assert lost


@pytest.mark.sampled(5)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_the_model_is_asked_once_more_at_most(who: Victim) -> None:
    def asked(*losses: Loss) -> tuple[int, int]:
        model = ScriptedModel(["hi"] * 9)
        with quick_folder() as folder:
            rt, engine = lossy_runtime(LlmAgent(name="root", model=model), Path(folder), losses)
            play(rt)
            return len(model.requests), engine.messages

    undisturbed_asks, messages = asked()
    for at in range(messages):
        for before in (True, False):
            assert asked(Loss(at, who, before))[0] <= undisturbed_asks + 1, (at, before)


@pytest.mark.full
@pytest.mark.parametrize("name", ["supervised", "supervised_side_by_side"])
@pytest.mark.parametrize("before", [True, False])
def test_what_a_supervisor_decides_is_decided_once_though_it_is_lost_just_then(name: str, before: bool) -> None:
    expected, _, decisions = undisturbed(name)
    assert decisions
    for at in range(decisions):
        said, engine = with_losses(name, [Loss(at, "agents", before, of_decisions=True)])
        assert (said, bool(engine.lost)) == (expected, True), (at, engine.lost)


@pytest.mark.full
@settings(max_examples=tries(40))
@given(
    name=st.sampled_from(list(TREES)),
    losses=st.lists(
        st.builds(Loss, at=st.integers(0, 60), who=st.sampled_from(get_args(Victim)), before=st.booleans()),
        min_size=1,
        max_size=2,
    ),
)
# Two runs of one agent share the process that is lost: that is one loss, not two.
@example(name="asking", losses=[Loss(14, "agents", before=False), Loss(23, "sender", before=False)])
def test_two_losses_are_as_good_as_none(name: str, losses: list[Loss]) -> None:
    assert with_losses(name, losses)[0] == undisturbed(name)[0]
