"""Workflows that wait for an answer, and go on where they were (semantics.md section 4)."""

from __future__ import annotations

import pytest

from actors import BaseAgent, LlmAgent, LongRunningFunctionTool
from actors.errors import AgentFailedError
from actors.testing import PatternModel, ScriptedModel
from tests.support.agents.conversation_tools import Gate
from tests.support.agents.workflow_agents import (
    COUNTED,
    CountingAgent,
    FailsBehindGate,
    answer,
    asks,
    gives_up,
    log,
    loop,
    par,
    run,
    says,
    seq,
    short,
    state,
)
from tests.support.runtimes import Deploy, stored
from tests.support.vectors.vector_agents import lro


def asked(name: str) -> str:
    return f"{name} call:lro !lro"


def test_a_sequence_goes_on_behind_the_child_that_has_its_answer(deploy: Deploy) -> None:
    with deploy(seq("root", says("a"), asks("b"), says("c"), asks("d"))) as rt:
        assert run(rt, "go") == (["a a", asked("b")], "Paused")
        assert run(rt, answer(rt, "b")) == (["b b knows", "c c", asked("d")], "Paused")
        assert run(rt, answer(rt, "d")) == (["d d knows"], "Finished")
        assert len({event.invocation_id for event in stored(rt)}) == 1


def test_a_loop_goes_on_at_its_iteration_and_child(deploy: Deploy) -> None:
    with deploy(loop("lp", says("a"), asks("b"), CountingAgent(name="c"), times=3)) as rt:
        assert run(rt, "go") == (["a a", asked("b")], "Paused")
        for count in (1, 2):
            assert run(rt, answer(rt, "b")) == (["b b knows", f"c c{count}", "a a", asked("b")], "Paused")
        assert run(rt, answer(rt, "b")) == (["b b knows", "c c3"], "Finished")


def test_whoever_escalated_before_a_pause_ends_the_loop_when_the_answer_has_come(deploy: Deploy) -> None:
    with deploy(loop("lp", says("a"), seq("s", gives_up("b"), asks("c"), says("d")), says("e"), times=3)) as rt:
        assert run(rt, "go") == (["a a", "b enough !escalate", "b bye", asked("c")], "Paused")
        assert run(rt, answer(rt, "c")) == (["c c knows", "d d"], "Finished")


def test_what_a_paused_loop_absorbs_does_not_end_the_loop_around_it(deploy: Deploy) -> None:
    inner = loop("inner", seq("s", gives_up("b"), asks("c")), says("d"), times=2, absorb=True)
    with deploy(loop("outer", inner, says("e"), times=2)) as rt:
        run(rt, "go")
        again = ["c c knows", "e e", "b enough !escalate", "b bye", asked("c")]
        assert run(rt, answer(rt, "c")) == (again, "Paused")
        assert run(rt, answer(rt, "c")) == (["c c knows", "e e"], "Finished")


def test_an_escalation_behind_the_answer_ends_the_loop(deploy: Deploy) -> None:
    with deploy(loop("lp", asks("b"), gives_up("c"), says("never"), times=3)) as rt:
        run(rt, "go")
        assert run(rt, answer(rt, "b")) == (["b b knows", "c enough !escalate", "c bye"], "Finished")


def test_callbacks_are_called_once_a_run_however_often_it_pauses(deploy: Deploy) -> None:
    with deploy(seq("root", loop("lp", asks("a", **COUNTED), times=2, **COUNTED), **COUNTED)) as rt:
        begun = {"root_begun": 1, "lp_begun": 1, "a_begun": 1}
        run(rt, "go")
        assert state(rt) == begun
        run(rt, answer(rt, "a"))
        assert state(rt) == {**begun, "a_begun": 2, "a_ended": 1}
        assert run(rt, answer(rt, "a"))[1] == "Finished"
        assert state(rt) == {**begun, "a_begun": 2, "a_ended": 2, "lp_ended": 1, "root_ended": 1}


def test_a_turn_of_mere_text_in_between_is_one_of_its_own(deploy: Deploy) -> None:
    with deploy(seq("root", says("a"), asks("b", [("just asking", "fine")]), says("c"))) as rt:
        run(rt, "go")
        waiting = answer(rt, "b")
        assert run(rt, "just asking") == (["a a", "b fine", "c c"], "Finished")
        assert run(rt, waiting) == (["b b knows", "c c"], "Finished")


def test_another_process_goes_on_over_the_same_store(deploy: Deploy) -> None:
    def tree() -> BaseAgent:
        return loop("lp", says("a"), asks("b"), CountingAgent(name="c"), times=2)

    with deploy(tree()) as rt:
        run(rt, "go")
        run(rt, answer(rt, "b"))
    with deploy(tree()) as rt:
        assert run(rt, answer(rt, "b")) == (["b b knows", "c c2"], "Finished")
        assert log(rt).count("a a") == 2


def test_below_a_child_that_has_handed_over_the_one_who_asked_goes_on(deploy: Deploy) -> None:
    child = LlmAgent(name="a", model=PatternModel([], default={"transfer": "b"}), sub_agents=[asks("b")])
    with deploy(loop("lp", child, says("c"), times=2)) as rt:
        assert run(rt, "go")[0][2:] == [asked("b")]
        first, how = run(rt, answer(rt, "b"))
        assert (first[:2], first[-1], how) == (["b b knows", "c c"], asked("b"), "Paused")
        assert run(rt, answer(rt, "b")) == (["b b knows", "c c"], "Finished")


def test_an_answer_to_a_call_of_a_turn_that_is_over_does_not_run_the_workflow_again(deploy: Deploy) -> None:
    model = ScriptedModel([{"parts": [{"call": "lro"}, {"transfer": "helper"}]}, "helped", "a knows"])
    helper = LlmAgent(name="helper", model=model)
    child = LlmAgent(name="a", model=model, tools=[LongRunningFunctionTool(lro)], sub_agents=[helper])
    with deploy(seq("root", child, says("b"))) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        told = turn.result()
        assert (short(told.events)[-1], type(told.outcome).__name__) == ("helper helped", "Paused")
        waiting = answer(rt, "a")
        turn.cancel()
        assert run(rt, waiting) == (["a a knows"], "Finished")


def test_an_answer_to_a_call_of_a_turn_that_has_failed_does_not_continue_what_failed(deploy: Deploy, gate: Gate) -> None:
    with deploy(seq("root", par("p", asks("a"), FailsBehindGate(name="b", gate=gate)), says("c"))) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        events = iter(turn)
        assert asked("a") in short([next(events), next(events)])
        gate.open()
        with pytest.raises(AgentFailedError, match="'b'"):
            list(events)
        assert run(rt, answer(rt, "a")) == (["a a knows"], "Finished")
