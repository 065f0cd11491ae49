"""Questions about budgets are asked once and answered once, whichever actor is lost; so are those of graphs that have failed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import START, Event, FunctionNode, Graph, LlmAgent, NodeContext, ParallelAgent, RequestInput, SequentialAgent
from actors.errors import AgentFailedError, RaygroveError
from runtime.driver.arguments import run_config_of
from tests.acceptance.graphs.test_pauses_and_attempts import answers
from tests.acceptance.losses.test_limits import Counting, look
from tests.acceptance.losses.test_losses import told
from tests.acceptance.losses.trees import talker
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.graphs import named_node
from tests.support.machine.folders import quick_folder
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import run_turn, stored
from tests.support.stores.logged_usage import check_usage, fold
from tests.support.tries import tries

LOSSES = st.builds(Loss, at=st.integers(0, 60), who=st.sampled_from(get_args(Victim)), before=st.booleans())
AGENTS = 2
LIMITS: dict[str, int] = {"llm_calls": 3, "tool_calls": 3}
MORE = 2


def played(losses: Sequence[Loss], field: str) -> tuple[list[Event], int, LossyEngine]:
    """A turn that asks for more, gets it, asks again, and is told no: its log, how often it got more, and the engine."""
    model = Counting()
    children = [LlmAgent(name=f"a{number}", model=MeteredModel(model), tools=[look]) for number in range(AGENTS)]
    root = SequentialAgent(name="root", sub_agents=[ParallelAgent(name="all", sub_agents=children)])
    config = run_config_of({"budget": {field: LIMITS[field], "at_limit": "ask"}, "timeout": 30})
    given = 0
    with quick_folder() as folder:
        rt, engine = lossy_runtime(root, Path(folder), losses)
        with rt:
            try:
                run_turn(rt, "go", run_config=config)
                for answer in ({field: MORE}, {field: MORE}, False):
                    check_questions(rt)
                    given += answer is not False
                    answers: dict[str, Any] = {call.call_id: answer for call in rt.pending(user_id="ada")}
                    rt.answer(answers, user_id="ada", session_id="s1").result()
                raise AssertionError("it was told no")
            except RaygroveError:
                log = stored(rt)
            assert any(event.error_code in ("BudgetExceededError", "ActorLostError") for event in log)
            check_usage(rt, log)
    return log, given, engine


def check_questions(rt: Any) -> None:
    """The turn is paused, and each agent asks once."""
    assert [turn.state for turn in rt.turns.list()] == ["paused"]
    asking = Counter(call.agent for call in rt.pending(user_id="ada"))
    assert asking == Counter({f"a{number}": 1 for number in range(AGENTS)})


def check(losses: Sequence[Loss], field: str) -> LossyEngine:
    """Play with losses, and check that nothing was done for which there was no room."""
    log, given, engine = played(losses, field)
    used = sum(getattr(amounts, field) for amounts in fold(log).values())
    # Calls of tools that a budget refuses are in the log all the same.
    held = AGENTS if field == "tool_calls" else 0
    assert used <= LIMITS[field] + given * MORE + held + AGENTS * engine.lost.count("session")
    return engine


@pytest.mark.parametrize("field", LIMITS)
def test_without_losses_it_asks_twice_and_uses_what_it_was_given(field: str) -> None:
    log, given, _ = played([], field)
    assert given == 2
    used = sum(getattr(amounts, field) for amounts in fold(log).values())
    most = LIMITS[field] + 2 * MORE
    assert used == most if field == "llm_calls" else most < used <= most + AGENTS
    assert log[-1].error_code == "BudgetExceededError"


@pytest.mark.sampled(12, full=3)
@pytest.mark.parametrize("field", LIMITS)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_it_is_asked_and_answered_once(who: Victim, field: str) -> None:
    assert check_from(0, who, field, step=max(1, played([], field)[2].messages // 8))


@pytest.mark.full
@pytest.mark.sampled(full=12)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("field", LIMITS)
@pytest.mark.parametrize("who", get_args(Victim))
def test_at_every_fourth_message(who: Victim, field: str) -> None:
    check_from(get_args(Victim).index(who) % 4, who, field, step=4)


def check_from(start: int, who: Victim, field: str, *, step: int) -> int:
    """Play with a loss at messages from one on, each nth. Returns how many actors were lost."""
    places = range(start, played([], field)[2].messages, step)
    return sum(len(check([Loss(at, who, before)], field).lost) for at in places for before in (True, False))


@pytest.mark.full
@settings(max_examples=tries(40), deadline=None)
@given(st.lists(LOSSES, min_size=1, max_size=4), st.sampled_from(list(LIMITS)))
def test_whatever_is_lost_it_is_asked_and_answered_once(losses: list[Loss], field: str) -> None:
    check(losses, field)


class Answered(NamedTuple):
    """What the log has, notes aside; what was called; the messages until the answer, and all; what was lost."""

    said: object
    called: Counter[str]
    until_answer: int
    messages: int
    lost: Sequence[str]


def counted(name: str, calls: Counter[str]) -> FunctionNode:
    called = named_node(name).func

    def call(node_input: object) -> object:
        calls[name] += 1
        return called(node_input)

    return FunctionNode(call, name=name)


def shaky_node(is_well: Callable[[], bool], calls: Counter[str]) -> FunctionNode:
    """A node that fails until it is well, once the question and the answer of the agent beside it are in the log."""

    async def shaky(ctx: NodeContext) -> str:
        calls["shaky"] += 1
        if is_well():
            return "well"
        async with asyncio.timeout(20):
            while True:
                events = await ctx.session.read_events()
                if {"q", "a"} <= {event.node_info.path.split("/")[-1][0] for event in events if event.node_info is not None}:
                    break
                await asyncio.sleep(0.001)
        raise ValueError("not now")

    return FunctionNode(shaky)


def answered_late(*losses: Loss) -> Answered:
    calls: Counter[str] = Counter()
    well: list[bool] = []

    def question() -> RequestInput:
        return RequestInput(interrupt_id="q")

    fan = (FunctionNode(question, name="q"), shaky_node(lambda: bool(well), calls), talker("a"))
    after, last = counted("after", calls), counted("last", calls)
    below = Graph(name="below", edges=[(START, counted("first", calls), fan), (fan[0], after), (fan[1], last)])
    root = Graph(name="wf", edges=[(START, below)])
    with quick_folder() as folder:
        rt, engine = lossy_runtime(root, Path(folder), losses)
        with rt:
            with pytest.raises(AgentFailedError, match="not now"):
                run_turn(rt, "go")
            until_answer = engine.messages
            well.append(True)
            run_turn(rt, answers(q=1))
            assert [turn.state for turn in rt.turns.list()] == ["finished"]
            log = [event for event in stored(rt) if event.node_info is None or not event.node_info.is_note]
        return Answered(told(log), calls, until_answer, engine.messages, engine.lost)


def check_late_from(start: int, who: Victim, *, step: int) -> int:
    """Lose an actor at messages of the answer, from one on, each nth. Returns how many were lost."""
    expected, lost = answered_late(), 0
    for at in range(expected.until_answer + start, expected.messages, step):
        for before in (True, False):
            found = answered_late(Loss(at, who, before))
            lost += len(found.lost)
            assert found.said == expected.said, (at, before, found.lost)
            # A function that is under way when its graph is lost begins again; none begins again that has ended.
            for name, times in expected.called.items():
                assert times <= found.called[name] <= times + (name != "first"), (name, at, before, found.lost)
    return lost


@pytest.mark.sampled(2)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_some_messages_of_the_answer_it_is_a_retry(who: Victim) -> None:
    assert check_late_from(get_args(Victim).index(who), who, step=12)


@pytest.mark.full
@pytest.mark.sampled(full=6)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("who", get_args(Victim))
def test_answers_to_failed_turns_at_every_message(who: Victim) -> None:
    assert check_late_from(0, who, step=1)
