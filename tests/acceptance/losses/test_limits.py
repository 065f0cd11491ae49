"""Limits and budgets of a turn, while any actor is lost: none is exceeded by one, and no limit is reached one too early
(semantics.md 2); agents overspend a budget by no more than the call that each has under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import (
    AgentTool,
    BaseAgent,
    Content,
    CustomAgent,
    Event,
    FunctionCall,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    ParallelAgent,
    Part,
)
from actors.errors import ActorLostError, RaygroveError
from actors.messages.config import RunConfig
from actors.messages.event import USER
from actors.testing import PatternModel
from runtime.driver.arguments import run_config_of
from runtime.driver.runtime import Runtime
from tests.acceptance.losses.trees import ask
from tests.support.agents.workflow_agents import answer, seq
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import run_turn, stored
from tests.support.stores.logged_usage import check_usage, fold
from tests.support.tries import tries

LIMIT = 4
MORE = 2
PLACES = 8
"""How many messages an ordinary run loses an actor at, of each case."""

Kind = Literal["alone", "in a sequence", "as a tool"]
Then = Literal["stops", "answer", "retry"]

ERRORS = {
    "max_llm_calls": "LlmCallsLimitExceededError",
    "max_transfers": "TransferLimitExceededError",
    "budget": "BudgetExceededError",
}
"""What ends a turn, by its limit."""


class Endless:
    """A model without a state whose agents would go on for ever; it counts how often it was asked.

    Args:
        transfers: `a` and `b` hand over to each other, and `x` to `y`; else each calls a tool. Only `x` and `y` have an end.
        asks: `a` asks a person in its second call.
    """

    def __init__(self, *, transfers: bool, asks: bool) -> None:
        self.asked = 0
        self._transfers = transfers
        self._asks = asks

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.asked += 1
        call = self._call(request)
        part = Part(function_call=call) if call is not None else Part(text=f"{request.agent} is done")
        yield LlmResponse(content=Content(role="model", parts=[part]))

    def _call(self, request: LlmRequest) -> FunctionCall | None:
        made = {call.name for content in request.contents for call in content.function_calls()}
        if request.agent == "y" or (request.agent == "x" and (made or not self._transfers)):
            return None
        if request.agent == "root":
            return FunctionCall(name="a", args={"request": "go"})
        if self._asks and request.agent == "a" and made and "ask" not in made:
            return FunctionCall(name="ask")
        if self._transfers:
            return FunctionCall(name="transfer_to_agent", args={"agent_name": {"a": "b", "b": "a", "x": "y"}[request.agent]})
        return FunctionCall(name="look")


def tree(model: Endless, kind: Kind) -> BaseAgent:
    b = LlmAgent(name="b", model=model, tools=[look])
    agent = LlmAgent(name="a", model=model, tools=[look, LongRunningFunctionTool(ask)], sub_agents=[b])
    if kind == "in a sequence":
        x = LlmAgent(name="x", model=model, tools=[look], sub_agents=[LlmAgent(name="y", model=model)])
        return seq("s", x, agent)
    return LlmAgent(name="root", model=model, tools=[AgentTool(agent)]) if kind == "as a tool" else agent


def options(limit: str, most: int) -> RunConfig:
    return run_config_of({limit: {"llm_calls": most} if limit == "budget" else most, "timeout": 30})


class Played(NamedTuple):
    """The log of a turn, what of it counts for the limit, how often the model was asked, and the engine."""

    log: Sequence[Event]
    counted: Sequence[Event]
    asked: int
    engine: LossyEngine


def played(limit: str, kind: Kind, then: Then, *losses: Loss, most: int = LIMIT) -> Played:
    """A turn up to its limit; with "retry" it is run again with the same limit, and with more."""
    model = Endless(transfers=limit == "max_transfers", asks=then == "answer")
    with quick_folder() as folder:
        rt, engine = lossy_runtime(tree(model, kind), Path(folder), losses)
        with rt:
            if then == "answer":
                run_turn(rt, "go", run_config=options(limit, most))
                check_stops(rt, limit, lambda: run_turn(rt, answer(rt, "a"), run_config=options(limit, most)))
            else:
                check_stops(rt, limit, lambda: run_turn(rt, "go", run_config=options(limit, most)))
            if then == "retry":
                asked = model.asked
                check_stops(rt, limit, lambda: retry(rt, {}))
                assert engine.lost or model.asked == asked
                check_stops(rt, limit, lambda: retry(rt, {"run_config": options(limit, most + MORE)}))
            log = stored(rt)
    message = max(event.seq for event in log if event.author == USER and event.branch is None)
    since = log if limit == "budget" else [event for event in log if event.seq > message]
    return Played(log, [event for event in since if counts(event, limit)], model.asked, engine)


def check_stops(rt: Runtime, limit: str, run: Callable[[], object]) -> None:
    """The limit ends the turn."""
    with pytest.raises(RaygroveError):
        run()
    assert stored(rt)[-1].error_code == ERRORS[limit]


def retry(rt: Runtime, more: dict[str, Any]) -> None:
    turn = rt.turns.list(state="failed")[0]
    rt.retry(user_id="ada", session_id="s1", invocation_id=turn.invocation_id, **more).result()


def counts(event: Event, limit: str) -> bool:
    """True for the answers of models; where transfers are limited for those."""
    if limit == "max_transfers":
        return event.actions.transfer_to_agent is not None
    return event.author != USER and event.model_version is not None


def check(limit: str, kind: Kind, then: Then, *losses: Loss) -> LossyEngine:
    """The limit is neither exceeded nor reached too early. An answer that was lost with a process may count: it was paid for."""
    log, counted, asked, engine = played(limit, kind, then, *losses)
    most = LIMIT + (MORE if then == "retry" else 0)
    if limit == "max_transfers":
        # The last one is refused.
        assert len(counted) == most + 1
        return engine
    lost = asked - sum(counts(event, limit) for event in log)
    if kind != "alone" and "runner" not in engine.lost:
        # A run in another one asks for each call. Whether it had made the last one no Runner knows.
        lost = max(lost, len(losses))
    assert most - lost <= len(counted) <= most
    return engine


CASES: list[tuple[str, Kind, Then]] = [
    (limit, kind, then)
    for limit in ERRORS
    for kind in get_args(Kind)
    for then in get_args(Then)
    # What is asked as a tool cannot wait for a person, and a transfer too many is an error for who has asked.
    if kind != "as a tool" or (limit != "max_transfers" and then != "answer")
]


@pytest.mark.parametrize(("limit", "kind", "then"), CASES)
def test_a_limit_is_used_up_to_the_last(limit: str, kind: Kind, then: Then) -> None:
    check(limit, kind, then)


def some_losses(messages: int, first: int) -> list[Loss]:
    """Losses at some of so many messages: all actors take turns, beginning with another one for each `first`."""
    victims = get_args(Victim)
    places = range(first % PLACES * messages // PLACES**2, messages, max(1, messages // PLACES))
    return [Loss(at, victims[(index + first) % len(victims)], before=index % 2 == 0) for index, at in enumerate(places)]


@pytest.mark.sampled(3, full=5)
@pytest.mark.parametrize(("limit", "kind", "then"), CASES)
def test_so_it_is_at_some_messages_whoever_is_lost(limit: str, kind: Kind, then: Then) -> None:
    messages = played(limit, kind, then).engine.messages
    lost = [check(limit, kind, then, loss).lost for loss in some_losses(messages, CASES.index((limit, kind, then)))]
    assert any(lost)


@pytest.mark.full
@pytest.mark.sampled(full=44)
@pytest.mark.parametrize("who", get_args(Victim))
@pytest.mark.parametrize(("limit", "kind", "then"), CASES)
def test_so_it_is_at_every_message(limit: str, kind: Kind, then: Then, who: Victim) -> None:
    for at in range(played(limit, kind, then).engine.messages):
        for before in (True, False):
            check(limit, kind, then, Loss(at, who, before))


@pytest.mark.parametrize("at", [11, 12, 13])
def test_a_call_that_was_counted_beforehand_counts_once_though_its_run_was_lost(at: int) -> None:
    """The first call of a nested run is counted beforehand while more than 100 are left."""
    found = played("max_llm_calls", "in a sequence", "stops", Loss(at, "sender", before=False), most=102)
    assert len(found.engine.lost) == 1
    assert len(found.counted) in (101, 102)


def test_the_time_of_a_turn_does_not_begin_anew_with_another_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    whole_s, times_s, timeout = 1_234.5, [], asyncio.timeout

    def noted(delay_s: float | None) -> asyncio.Timeout:
        if delay_s is not None and whole_s / 2 < delay_s <= whole_s:
            times_s.append(delay_s)
        return timeout(delay_s)

    monkeypatch.setattr(asyncio, "timeout", noted)
    with quick_folder() as folder:
        agent = LlmAgent(name="root", model=PatternModel([("tool:", "done")], default={"call": "look"}), tools=[look])
        rt, engine = lossy_runtime(agent, Path(folder), [Loss(4, "runner", before=False)])
        with rt:
            run_turn(rt, "go", run_config=RunConfig(timeout=whole_s))
    assert "runner" in engine.lost
    assert [each < whole_s for each in times_s] == [False, True]


@pytest.mark.parametrize(
    ("who", "where", "runs"),
    [("agents", "model", 5), ("agents", "tool", 4), ("agents", "code", 4), ("runner", "model", 8)],
)
def test_a_run_is_given_up_at_its_last_loss_and_no_earlier(who: Victim, where: str, runs: int) -> None:
    """A tool and a custom agent's code are known to have run. Where nothing is, a run has two losses beside others first."""
    begun: list[str] = []

    async def die() -> None:
        begun.append(where)
        await engine.lose(who)

    with quick_folder() as folder:
        rt, engine = lossy_runtime(Deadly(name="root", die=die) if where == "code" else deadly(where, die), Path(folder))
        with rt, pytest.raises(ActorLostError):
            run_turn(rt, "go", run_config=RunConfig(timeout=30))
    assert len(begun) == runs


class Deadly(CustomAgent):
    """Loses its process."""

    die: Callable[[], Awaitable[None]]

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await self.die()
        yield Event(content=Content.of_text("alive", role="model"))


def deadly(where: str, die: Callable[[], Awaitable[None]]) -> LlmAgent:
    """An agent whose model, or tool, loses its process."""

    class DeadlyModel:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            if where == "model":
                await die()
            yield LlmResponse(content=Content(role="model", parts=[Part(function_call=FunctionCall(name="die"))]))

    return LlmAgent(name="root", model=DeadlyModel(), tools=[FunctionTool(die)])


SOME_LOSSES = st.builds(Loss, at=st.integers(0, 80), who=st.sampled_from(get_args(Victim)), before=st.booleans())
BUDGETS = ("budget", "session_budget", "user_daily_budget", "app_daily_budget", "agent_budgets")
AGENTS = 4
CALLS = 10


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


def spent(losses: Sequence[Loss], kind: str, at_limit: str = "stop") -> tuple[list[Event], int, LossyEngine]:
    """A turn of agents side by side that would never end: its log, how often models were asked, and the engine."""
    model = Counting()
    of_all: dict[str, object] = {"llm_calls": CALLS, "at_limit": at_limit}
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


def check_spending(losses: Sequence[Loss], kind: str) -> LossyEngine:
    """Play with losses, and check that the log is within the budget, and that no call was paid for beyond those under way."""
    log, asked, engine = spent(losses, kind)
    in_log = sum(amounts.llm_calls for amounts in fold(log).values())
    # The Session actor alone knows what is under way.
    assert in_log <= CALLS + AGENTS * engine.lost.count("session")
    # What was under way at a loss is not in the log, and was asked all the same.
    assert asked <= CALLS + AGENTS * len(losses)
    assert any(event.error_code in ("BudgetExceededError", "ActorLostError") for event in log)
    return engine


@pytest.mark.parametrize("kind", BUDGETS)
def test_without_losses_the_budget_is_used_up_to_the_last_call(kind: str) -> None:
    log, asked, _ = spent([], kind)
    assert asked == sum(amounts.llm_calls for amounts in fold(log).values()) == CALLS


@pytest.mark.sampled(30, full=10)
@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_the_budget_holds(who: Victim, kind: str) -> None:
    messages = spent([], kind)[2].messages
    lost = 0
    for at in range(0, messages, max(1, messages // 8)):
        for before in (True, False):
            lost += len(check_spending([Loss(at, who, before)], kind).lost)
    assert lost


@pytest.mark.full
@settings(max_examples=tries(40), deadline=None)
@given(st.lists(SOME_LOSSES, min_size=1, max_size=4), st.sampled_from(BUDGETS))
def test_whatever_is_lost_the_budget_holds(losses: list[Loss], kind: str) -> None:
    check_spending(losses, kind)


def wrapped_up(losses: Sequence[Loss], kind: str) -> LossyEngine:
    """Play where agents have to end, and check that they go beyond the budget by one call of each."""
    log, _, engine = spent(losses, kind, "wrap_up")
    assert sum(amounts.llm_calls for amounts in fold(log).values()) <= CALLS + AGENTS
    return engine


@pytest.mark.sampled(10, full=9)
@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_each_agent_has_one_last_call(who: Victim, kind: str) -> None:
    messages = wrapped_up([], kind).messages
    assert sum(len(wrapped_up([Loss(at, who, False)], kind).lost) for at in range(0, messages, max(1, messages // 8)))


@pytest.mark.full
@settings(max_examples=tries(40), deadline=None)
@given(st.lists(SOME_LOSSES, min_size=1, max_size=4), st.sampled_from(BUDGETS))
def test_whatever_is_lost_each_agent_has_one_last_call(losses: list[Loss], kind: str) -> None:
    wrapped_up(losses, kind)
