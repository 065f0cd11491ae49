"""What a workflow agent does when a child fails (semantics.md section 4, "Supervision")."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from actors import BaseAgent, FunctionTool, LlmAgent, RunConfig, Supervision
from actors.errors import AgentFailedError, LlmCallsLimitExceededError, TransferLimitExceededError, TurnCancelledError
from actors.rules.suspects import MAX_LOSSES
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.frontends.console.lines import event_lines
from tests.support.agents.failing_agents import (
    SKIP,
    FailingAgent,
    ProcessKillingAgent,
    agent_failing_first,
    decisions_in,
    logged_decisions,
    restart,
)
from tests.support.agents.workflow_agents import (
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
)
from tests.support.fixtures.lossy_engine import lossy_runtime
from tests.support.runtimes import Deploy, run_turn
from tests.support.vectors.vector_agents import good


def fails(rt: Runtime, who: str) -> list[str]:
    """Run a turn that fails in that agent; return the new events in short form."""
    before = len(log(rt))
    with pytest.raises(AgentFailedError, match=f"agent '{who}' failed: ValueError: kaput"):
        run_turn(rt, "go")
    return log(rt)[before + 1 :]


def test_who_fails_is_run_again_or_passed_over_and_the_workflow_goes_on(deploy: Deploy) -> None:
    """All in one tree, since on Ray each agent is a process."""
    inner = loop("lp", FailingAgent(name="never"), says("goes_on"), times=2, supervision=SKIP)
    side_by_side = par("p", FailingAgent(name="twice", times=2), inner, supervision=restart(2))
    with deploy(seq("root", side_by_side, FailingAgent(name="at_last"), supervision=restart(1, backoff_s=0.001))) as rt:
        fails(rt, "at_last")
        lines = log(rt, branch=True)
        tries = [(f"twice try {number} @p.twice", "twice !err=ValueError @p.twice") for number in (1, 2)]
        assert [line for line in lines if line.endswith("@p.twice")] == [
            *(line for lines in tries for line in lines),
            *["twice try 3 @p.twice", "twice done @p.twice"],
        ]
        tries = [(f"never try {number} @p.lp", "never !err=ValueError @p.lp") for number in (1, 2)]
        assert [line for line in lines if line.endswith("@p.lp")] == [
            line for lines in tries for line in (*lines, "goes_on goes_on @p.lp")
        ]
        assert lines[-4:] == [line for number in (1, 2) for line in (f"at_last try {number} @", "at_last !err=ValueError @")]
        assert state(rt) == {"twice": 3, "never": 2, "at_last": 2}
        assert sorted(logged_decisions(rt)) == [
            *["lp skip never", "lp skip never", "p restart twice 1/2", "p restart twice 2/2"],
            *["root escalate at_last", "root restart at_last 1/1"],
        ]


@pytest.mark.usefixtures("local_ray")
def test_a_child_that_takes_every_process_along_is_passed_over(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(seq("root", ProcessKillingAgent(name="deadly"), says("z"), supervision=SKIP)) as rt:
        seen = run_turn(rt, "go", run_config=RunConfig(timeout=60))
        assert short(seen) == ["deadly !err=ActorLostError", "z z"]
        assert decisions_in(seen) == ["root skip deadly"]
        # The root, the child in a shared process and then alone, and the one after it.
        assert rt.statistics().runner.counts["invocations"] == 1 + (1 + MAX_LOSSES) + 1


def test_a_child_that_was_run_again_begins_anew_and_sees_what_it_did_before(local: Deploy) -> None:
    model = ScriptedModel([{"call": "good"}, ValueError("kaput"), {"call": "good"}, "done", "end"])
    child = LlmAgent(name="a", model=model, tools=[FunctionTool(good)])
    with local(seq("root", child, LlmAgent(name="b", model=model), supervision=restart())) as rt:
        seen = run_turn(rt, "go")
        assert short(seen) == ["a call:good", "a resp:good", "a !err=ValueError", "a call:good", "a resp:good", "a done", "b end"]
        # No agent sees the failure or the decision.
        assert [[content.role for content in request.contents] for request in model.requests] == [
            ["user"],
            ["user", "model", "user"],
            ["user", "model", "user"],
            ["user", "model", "user", "model", "user"],
            ["user"] * 6,
        ]
        assert "kaput" not in "".join(content.text for content in model.requests[-1].contents)
        told = [line for event in seen for kind, line in event_lines(event) if kind == "supervision"]
        assert told == ["a failed with ValueError: restart 1 of 3 within 60 s begins at once"]


def test_in_a_loop_restarts_count_over_all_rounds_and_each_child_has_its_own(local: Deploy) -> None:
    tree = loop("lp", FailingAgent(name="a", times=2), FailingAgent(name="b", times=1), times=3, supervision=restart(2))
    with local(tree) as rt:
        assert short(run_turn(rt, "go")).count("b done") == 3
        assert logged_decisions(rt) == ["lp restart a 1/2", "lp restart a 2/2", "lp restart b 1/2"]
    with local(loop("lp", agent_failing_first("c", 0), FailingAgent(name="d"), times=3, supervision=restart(1))) as rt:
        fails(rt, "d")
        # Once for each run of the supervisor, and the next turn is another.
        fails(rt, "d")
        assert logged_decisions(rt)[3:] == ["lp restart d 1/1", "lp escalate d"] * 2


def test_who_has_failed_and_goes_on_after_a_pause_is_still_counted(local: Deploy) -> None:
    def tree(most: int) -> BaseAgent:
        inner = par(
            "p",
            FailingAgent(name="a", times=1),
            asks("b"),
            seq("s", asks("c"), FailingAgent(name="d", times=2)),
            supervision=restart(most),
        )
        return seq("root", inner, says("z"))

    with local(tree(2)) as rt:
        assert run(rt, "go")[1] == "Paused"
        assert run(rt, answer(rt, "b"))[1] == "Paused"
        assert run(rt, answer(rt, "c"))[1] == "Paused"
        assert run(rt, answer(rt, "c"))[1] == "Paused"
        assert run(rt, answer(rt, "c"))[0][-1] == "z z"
        assert logged_decisions(rt) == ["p restart a 1/2", "p restart s 1/2", "p restart s 2/2"]
        assert state(rt) == {"a": 2, "d": 3}


def test_the_wait_before_a_restart_grows_and_a_failure_long_ago_does_not_count(tmp_path: Path) -> None:
    policy = Supervision(strategy="restart", max_restarts=3, within_s=40, backoff_s=10, max_backoff_s=25)
    rt, engine = lossy_runtime(seq("root", FailingAgent(name="a", times=4), supervision=policy), tmp_path)
    with rt:
        # When the fourth is wanted, the first has begun 45 s ago.
        assert short(run_turn(rt, "go"))[-1] == "a done"
        assert engine.clock.slept == [10, 20, 25, 25]
        assert logged_decisions(rt) == [f"root restart a {number}/3" for number in (1, 2, 3, 3)]


def test_a_wait_is_no_longer_where_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Supervision(strategy="restart", max_restarts=3, backoff_s=10)
    rt, engine = lossy_runtime(seq("root", FailingAgent(name="a", times=1), supervision=policy), tmp_path)
    hours = itertools.count(0, -3_600)
    monkeypatch.setattr(engine.clock, "now_s", lambda: 1e9 + next(hours))
    with rt:
        assert short(run_turn(rt, "go"))[-1] == "a done"
        assert next(hours) < -3_600
        assert engine.clock.slept == [10]


def test_a_turn_is_cancelled_while_its_supervisor_waits(local: Deploy) -> None:
    policy = Supervision(strategy="restart", backoff_s=3_600, max_backoff_s=3_600)
    with local(seq("root", par("p", agent_failing_first("a", 1), says("b"), supervision=policy))) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go", invocation_id="e-1")
        for event in turn:
            if decisions_in([event]):
                # Leaving the iteration cancels the turn.
                break
        with pytest.raises(TurnCancelledError):
            list(rt.attach(user_id="ada", session_id="s1", invocation_id="e-1"))
        assert sorted(run_greeting(rt)) == ["a a is done", "b b"]


def test_in_a_parallel_the_siblings_of_who_is_passed_over_run_to_their_end(local: Deploy) -> None:
    tree = seq("root", par("p", FailingAgent(name="a"), says("b", "1", "2"), asks("c"), supervision=SKIP), says("z"))
    with local(tree) as rt:
        said, how = run(rt, "go")
        assert (sorted(said), how) == (["a !err=ValueError", "a try 1", "b 1", "b 2", "c call:lro !lro"], "Paused")
        assert run(rt, answer(rt, "c")) == (["c c knows", "z z"], "Finished")
        assert logged_decisions(rt) == ["p skip a"]


def test_an_escalation_counts_even_if_its_author_failed_and_was_passed_over(local: Deploy) -> None:
    with local(loop("lp", FailingAgent(name="a", escalates=True), says("b"), times=3, supervision=SKIP)) as rt:
        assert short(run_turn(rt, "go")) == ["a try 1 !escalate", "a !err=ValueError"]
    with local(loop("lp2", par("p", FailingAgent(name="c", times=1), gives_up("d"), supervision=restart()), says("e"))) as rt:
        assert short(run_turn(rt, "go"))[-1] in ("c done", "d bye")


def test_by_default_a_failure_goes_up_without_another_word(local: Deploy) -> None:
    with local(seq("root", loop("lp", par("p", FailingAgent(name="a")), says("b")), says("c"))) as rt:
        assert fails(rt, "a") == ["a try 1", "a !err=ValueError"]
        assert logged_decisions(rt) == []


def test_what_a_supervisor_lets_go_up_is_supervised_by_the_one_above(local: Deploy) -> None:
    inner = seq("inner", FailingAgent(name="a"), supervision=restart(1))
    with local(seq("root", par("p", inner, says("b"), supervision=SKIP), says("z"))) as rt:
        assert short(run_turn(rt, "go"))[-1] == "z z"
        assert logged_decisions(rt) == ["inner restart a 1/1", "inner escalate a", "p skip inner"]
    # A supervisor that is itself restarted has its full number of restarts for its children again.
    with local(
        seq("root2", seq("inner2", FailingAgent(name="c", times=3), supervision=restart(1)), supervision=restart(1))
    ) as rt:
        assert short(run_turn(rt, "go", "s2"))[-1] == "c done"
        again = "inner2 restart c 1/1"
        assert logged_decisions(rt, "s2") == [again, "inner2 escalate c", "root2 restart inner2 1/1", again]


def test_in_a_parallel_a_failure_that_goes_up_at_last_ends_the_siblings(local: Deploy) -> None:
    with local(par("p", FailingAgent(name="a"), hangs("b"), supervision=restart(2))) as rt:
        seen = fails(rt, "a")
        tries = [(f"a try {number}", "a !err=ValueError") for number in (1, 2, 3)]
        assert [line for line in seen if line.startswith("a")] == [line for lines in tries for line in lines]
        assert logged_decisions(rt) == ["p restart a 1/2", "p restart a 2/2", "p escalate a"]
        assert "b resp:forever" not in seen


@pytest.mark.parametrize("strategy", ["restart", "skip"])
def test_limits_of_the_whole_turn_go_up_whatever_the_strategy(local: Deploy, strategy: str) -> None:
    policy = Supervision.model_validate({"strategy": strategy})
    calls = LlmAgent(
        name="a", model=PatternModel([("tool:", {"call": "good"})], default={"call": "good"}), tools=[FunctionTool(good)]
    )
    with local(seq("root", calls, says("z"), supervision=policy)) as rt:
        with pytest.raises(LlmCallsLimitExceededError):
            run_turn(rt, "go", run_config=RunConfig(max_llm_calls=3))
        assert log(rt)[-1] == "a !err=LlmCallsLimitExceededError"
        assert logged_decisions(rt) == ["root escalate a"]
    ping = LlmAgent(
        name="ping",
        model=PatternModel([], default={"transfer": "pong"}),
        sub_agents=[LlmAgent(name="pong", model=PatternModel([], default={"transfer": "ping"}))],
    )
    with local(seq("root", ping, says("z"), supervision=policy)) as rt:
        with pytest.raises(TransferLimitExceededError):
            run_turn(rt, "go", "s2", run_config=RunConfig(max_transfers=3))
        assert logged_decisions(rt, "s2") == ["root escalate ping"]
