"""Children that run at once, each on a branch of its own (semantics.md section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import FunctionTool, LlmAgent, RunConfig
from actors.errors import AgentFailedError, LlmCallsLimitExceededError, TurnCancelledError, TurnTimeoutError
from actors.testing import PatternModel, ScriptedModel
from runtime.settings import Settings
from tests.support.agents.conversation_agents import StateReader
from tests.support.agents.conversation_tools import Gate, put
from tests.support.agents.workflow_agents import (
    CountingAgent,
    FailsBehindGate,
    UnstoppableAgent,
    answer,
    asks,
    gives_up,
    hangs,
    log,
    loop,
    par,
    run,
    run_greeting,
    says,
    seq,
    short,
    state,
    waits,
)
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.vectors.vector_agents import good

pytestmark = pytest.mark.sampled(2, of="module")


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[list[Gate]]:
    """Two gates that are released when the test has ended."""
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(Gate(tmp_path / name))
    yield made
    for gate in made:
        gate.release()


def asked(name: str) -> str:
    return f"{name} call:lro !lro"


def test_every_child_has_a_branch_and_behind_them_the_enclosing_one_applies_again(deploy: Deploy) -> None:
    inner = par("p2", says("b"), says("c"))
    with deploy(seq("root", says("first"), par("p", says("a"), seq("s", inner, says("d"))), says("last"))) as rt:
        seen = short(run_turn(rt, "go"), branch=True)
        assert (seen[0], seen[-1]) == ("first first @", "last last @")
        assert sorted(seen[1:-1]) == ["a a @p.a", "b b @p.s.p2.b", "c c @p.s.p2.c", "d d @p.s"]


def test_children_do_not_see_each_other_but_who_comes_behind_sees_all(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "good"}, "one", {"call": "good"}, "two", "end"])
    # One child after the other, so that the second could see all of the first, in one parallel each.
    children = [LlmAgent(name=name, model=model, tools=[FunctionTool(good)]) for name in ("a", "b")]
    with deploy(
        seq("root", par("p", loop("la", children[0], times=1)), par("q", children[1]), LlmAgent(name="c", model=model))
    ) as rt:
        run_turn(rt, "go")
        assert [content.text for content in model.requests[2].contents] == ["go"]
        assert [content.text for content in model.requests[3].contents] == ["go", "", ""]
        told = " ".join(content.text for content in model.requests[4].contents)
        assert "[a] said: one" in told
        assert "[b] said: two" in told


def test_state_is_shared(deploy: Deploy) -> None:
    model = PatternModel([("tool:", "done")], default={"call": "put", "args": {"key": "draft", "value": "x"}})
    writer = LlmAgent(name="writer", model=model, tools=[put])
    with deploy(
        seq(
            "root",
            par(
                "p",
                CountingAgent(name="a", key="a"),
                CountingAgent(name="b", key="b"),
                StateReader(name="r", sub_agents=[writer]),
            ),
        )
    ) as rt:
        assert "r read: x" in short(run_turn(rt, "go"))
        assert state(rt) == {"a": 1, "b": 1, "draft": "x"}


def test_an_escalation_cuts_no_sibling_and_travels_up(deploy: Deploy) -> None:
    with deploy(loop("lp", par("p", gives_up("a"), says("b", "1", "2", "3")), says("c"), times=3)) as rt:
        seen = short(run_turn(rt, "go"))
        assert sorted(seen) == ["a bye", "a enough !escalate", "b 1", "b 2", "b 3"]


def test_without_children_it_is_done_at_once(deploy: Deploy) -> None:
    with deploy(seq("root", par("p"), says("z"))) as rt:
        assert short(run_turn(rt, "go")) == ["z z"]


def test_the_first_error_stops_the_siblings_and_nothing_of_theirs_is_stored_behind_it(deploy: Deploy, gates: list[Gate]) -> None:
    breaks, holds = gates
    tree = seq(
        "root",
        par("p", FailsBehindGate(name="a", gate=breaks), waits("b", holds), loop("lp", hangs("c")), UnstoppableAgent(name="d")),
        says("z"),
    )
    with deploy(tree) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        events = iter(turn)
        begun: set[str] = set()
        while begun != {"b", "c", "d"}:
            event = next(events)
            begun |= {event.author} if event.content else set()
        breaks.open()
        with pytest.raises(AgentFailedError, match="agent 'a' failed: ValueError: kaput"):
            list(events)
        sealed = len(log(rt))
        assert log(rt)[-1] == "a !err=ValueError"
        assert "d not yet" not in log(rt)
        # The thread at the gate cannot be stopped: now it returns, and its result is dropped.
        holds.open()
        again = rt.run(user_id="ada", session_id="s1", message="hi")
        breaks.open()
        with pytest.raises(AgentFailedError):
            again.result()
        assert log(rt)[sealed] == "user hi"
        assert not [line for line in log(rt) if "resp:" in line]


def test_model_calls_of_all_children_are_counted_together_and_exactly(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "good"}] * 30)
    children = [LlmAgent(name=name, model=model, tools=[FunctionTool(good)]) for name in ("a", "b", "c")]
    with deploy(seq("root", par("p", *children), says("z"))) as rt:
        with pytest.raises(LlmCallsLimitExceededError):
            run_turn(rt, "go", run_config=RunConfig(max_llm_calls=7))
        assert len(model.requests) == 7
        assert next(line.split("=")[1] for line in log(rt) if "!err" in line) == "LlmCallsLimitExceededError"


def test_siblings_of_who_asks_run_to_their_end_and_are_not_run_again(deploy: Deploy) -> None:
    with deploy(seq("root", par("p", asks("a"), says("b", "1", "2")), says("z"))) as rt:
        said, how = run(rt, "go")
        assert (sorted(said), how) == ([asked("a"), "b 1", "b 2"], "Paused")
        assert run(rt, answer(rt, "a")) == (["a a knows", "z z"], "Finished")


def test_it_is_done_when_all_who_asked_have_their_answers_in_whatever_order(deploy: Deploy) -> None:
    with deploy(seq("root", par("p", asks("a"), seq("s", asks("b"), says("d")), asks("c")), says("z"))) as rt:
        for order in ("abc", "cab", "bca"):
            assert run(rt, "go", order)[1] == "Paused"
            heard = []
            for number, name in enumerate(order, start=1):
                said, how = run(rt, answer(rt, name, session_id=order), order)
                assert how == ("Finished" if number == len(order) else "Paused")
                assert said[0] == f"{name} {name} knows"
                assert (said[1:2] == ["d d"]) == (name == "b")
                heard += said
            assert heard[-1] == "z z"
            assert len(heard) == 5


def test_two_answers_in_one_message_continue_both(deploy: Deploy) -> None:
    with deploy(seq("root", par("p", asks("a"), asks("b"), asks("c")), says("z"))) as rt:
        run(rt, "go")
        said, how = run(rt, answer(rt, "a", "c"))
        assert (sorted(said), how) == (["a a knows", "c c knows"], "Paused")
        assert run(rt, answer(rt, "b")) == (["b b knows", "z z"], "Finished")


def test_an_escalation_of_a_sibling_counts_when_the_answers_have_come(deploy: Deploy) -> None:
    with deploy(loop("lp", par("p", gives_up("a"), asks("b"), asks("c")), says("d"), times=3)) as rt:
        run(rt, "go")
        assert run(rt, answer(rt, "c")) == (["c c knows"], "Paused")
        assert run(rt, answer(rt, "b")) == (["b b knows"], "Finished")


def test_a_sequence_in_a_loop_in_a_parallel_is_answered_to_its_end(deploy: Deploy) -> None:
    """On Ray each of these agents is an actor of its own, and none is started twice."""
    first = loop("la", seq("sa", says("a1"), asks("a2"), says("a3")), times=2)
    second = loop("lb", seq("sb", asks("b1"), asks("b2")), times=1)
    root = seq("root", par("p", first, second), says("z"))
    with deploy(root, settings=Settings(max_live_agents=12)) as rt:
        said, how = run(rt, "go")
        assert (sorted(said), how) == (["a1 a1", asked("a2"), asked("b1")], "Paused")
        assert run(rt, answer(rt, "b1")) == (["b1 b1 knows", asked("b2")], "Paused")
        assert run(rt, answer(rt, "a2")) == (["a2 a2 knows", "a3 a3", "a1 a1", asked("a2")], "Paused")
        assert run(rt, answer(rt, "b2")) == (["b2 b2 knows"], "Paused")
        assert run(rt, answer(rt, "a2")) == (["a2 a2 knows", "a3 a3", "z z"], "Finished")
        agents = rt.statistics().agents
        assert set(agents) == {"root", "p", "la", "sa", "a1", "a2", "a3", "lb", "sb", "b1", "b2", "z"}
        assert len({agent.pid for agent in agents.values()}) == (1 if deploy.engine == "local" else len(agents))


@pytest.mark.parametrize("stop", ["cancel", "timeout"])
def test_a_turn_that_is_stopped_in_a_parallel_in_a_loop_is_sealed_and_the_next_one_works(
    deploy: Deploy, gates: list[Gate], stop: str
) -> None:
    gate = gates[0]
    with deploy(
        loop(
            "lp",
            par("p", waits("a", gate), loop("inner", hangs("b"), times=1), UnstoppableAgent(name="c")),
            says("d"),
            times=2,
        )
    ) as rt:
        run_greeting(rt)
        before = len(stored(rt))
        # Long enough for all three to have begun, also on a busy machine.
        timeout_s = 2.0 if deploy.engine == "local" else 4.0
        config = RunConfig(timeout=timeout_s if stop == "timeout" else None)
        turn = rt.run(user_id="ada", session_id="s1", message="go", run_config=config)
        events = iter(turn)
        begun: set[str] = set()
        while begun != {"a", "b", "c"}:
            event = next(events)
            begun |= {event.author} if event.content else set()
        # A call is stored before its tool begins, and one that is cancelled in between never does.
        gate.wait_for_caller()
        if stop == "cancel":
            turn.cancel()
        with pytest.raises(TurnCancelledError if stop == "cancel" else TurnTimeoutError):
            list(events)
        sealed = stored(rt)
        answers = {answer.name: answer.response for event in sealed[before:] for answer in event.function_responses()}
        assert sealed[-1].author in "ab"
        assert not [event for event in sealed if event.text == "not yet"]
        assert answers == {"wait": {"error": "cancelled"}, "forever": {"error": "cancelled"}}
        gate.open()
        assert sorted(set(run_greeting(rt))) == ["a hello", "b hello", "c hello", "d d"]
        assert [event.id for event in stored(rt)[: len(sealed)]] == [event.id for event in sealed]
        assert stored(rt)[len(sealed)].author == "user"
        assert not [event for event in stored(rt)[len(sealed) :] if event.invocation_id == turn.invocation_id]
