"""A budget holds whichever actor is lost: agents overspend it by no more than the call that each has under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Content, Event, FunctionCall, LlmAgent, LlmRequest, LlmResponse, ParallelAgent, Part
from actors.errors import RaygroveError
from runtime.driver.arguments import run_config_of
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import run_turn, stored
from tests.support.stores.logged_usage import check_usage, fold
from tests.support.tries import tries

LOSSES = st.builds(Loss, at=st.integers(0, 80), who=st.sampled_from(get_args(Victim)), before=st.booleans())
KINDS = ("budget", "session_budget", "user_daily_budget", "app_daily_budget", "agent_budgets")
AGENTS = 4
LIMIT = 10


class Counting:
    """A model that calls a tool for ever, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.asked += 1
        await asyncio.sleep(0)
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=FunctionCall(name="look"))]))


def look() -> str:
    """Look."""
    return "nothing"


def played(losses: Sequence[Loss], kind: str, at_limit: str = "stop") -> tuple[list[Event], int, LossyEngine]:
    """A turn of agents side by side that would never end: its log, how often models were asked, and the engine."""
    model = Counting()
    of_all: dict[str, object] = {"llm_calls": LIMIT, "at_limit": at_limit}
    budget = {"all": of_all} if kind == "agent_budgets" else of_all
    children = [LlmAgent(name=f"a{number}", model=MeteredModel(model), tools=[look]) for number in range(AGENTS)]
    with quick_folder() as folder:
        rt, engine = lossy_runtime(ParallelAgent(name="all", sub_agents=children), Path(folder), losses)
        with rt:
            with pytest.raises(RaygroveError):
                run_turn(rt, "go", run_config=run_config_of({kind: budget, "timeout": 30}))
            log = stored(rt)
            check_usage(rt, log)
    return log, model.asked, engine


def check(losses: Sequence[Loss], kind: str) -> LossyEngine:
    """Play with losses, and check that the log is within the budget, and that no call was paid for beyond those under way."""
    log, asked, engine = played(losses, kind)
    in_log = sum(amounts.llm_calls for amounts in fold(log).values())
    # The Session actor alone knows what is under way.
    assert in_log <= LIMIT + AGENTS * engine.lost.count("session")
    # What was under way at a loss is not in the log, and was asked all the same.
    assert asked <= LIMIT + AGENTS * len(losses)
    assert any(event.error_code in ("BudgetExceededError", "ActorLostError") for event in log)
    return engine


@pytest.mark.parametrize("kind", KINDS)
def test_without_losses_the_budget_is_used_up_to_the_last_call(kind: str) -> None:
    log, asked, _ = played([], kind)
    assert asked == sum(amounts.llm_calls for amounts in fold(log).values()) == LIMIT


@pytest.mark.sampled(30, full=10)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_the_budget_holds(who: Victim, kind: str) -> None:
    messages = played([], kind)[2].messages
    lost = 0
    for at in range(0, messages, max(1, messages // 8)):
        for before in (True, False):
            lost += len(check([Loss(at, who, before)], kind).lost)
    assert lost


@pytest.mark.full
@settings(max_examples=tries(40), deadline=None)
@given(st.lists(LOSSES, min_size=1, max_size=4), st.sampled_from(KINDS))
def test_whatever_is_lost_the_budget_holds(losses: list[Loss], kind: str) -> None:
    check(losses, kind)


def wrapped_up(losses: Sequence[Loss], kind: str) -> LossyEngine:
    """Play where agents have to end, and check that they go beyond the budget by one call of each."""
    log, _, engine = played(losses, kind, "wrap_up")
    assert sum(amounts.llm_calls for amounts in fold(log).values()) <= LIMIT + AGENTS
    return engine


@pytest.mark.sampled(10, full=9)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_each_agent_has_one_last_call(who: Victim, kind: str) -> None:
    messages = wrapped_up([], kind).messages
    assert sum(len(wrapped_up([Loss(at, who, False)], kind).lost) for at in range(0, messages, max(1, messages // 8)))


@pytest.mark.full
@settings(max_examples=tries(40), deadline=None)
@given(st.lists(LOSSES, min_size=1, max_size=4), st.sampled_from(KINDS))
def test_whatever_is_lost_each_agent_has_one_last_call(losses: list[Loss], kind: str) -> None:
    wrapped_up(losses, kind)
