"""Loops and sequences, what happens inside of them, and what each agent of a long one costs (semantics.md section 4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import pytest

from actors import Content, Event, FunctionTool, LlmAgent, LlmRequest, LlmResponse, LoopAgent, RunConfig, SequentialAgent
from actors.agent import views
from actors.errors import AgentFailedError, TransferTargetError
from actors.messages.event import decode_event
from actors.testing import PatternModel, ScriptedModel
from runtime import Runtime
from tests.support.agents.conversation_callbacks import greet, sign
from tests.support.agents.workflow_agents import COUNTED, CountingAgent, gives_up, log, loop, says, seq, short, state, thinks
from tests.support.runtimes import Deploy, run_turn
from tests.support.vectors.vector_agents import FailingAgent, esc, good, route_s


def test_a_loop_runs_its_children_in_order_as_often_as_it_is_told(deploy: Deploy) -> None:
    with deploy(loop("lp", says("a"), says("b"), times=3)) as rt:
        assert short(run_turn(rt, "go")) == ["a a", "b b"] * 3


def test_a_loop_without_a_limit_runs_until_a_child_escalates(deploy: Deploy) -> None:
    loops = [
        loop("l1", says("a"), CountingAgent(name="b", key="b", when=12)),
        loop("l2", CountingAgent(name="c", key="c", when=12), times=0),
    ]
    with deploy(seq("root", *loops)) as rt:
        said = short(run_turn(rt, "go"))
        assert said[20:24] == ["a a", "b b11", "a a", "b b12 !escalate"]
        assert said[24:] == [*(f"c c{number}" for number in range(1, 12)), "c c12 !escalate"]


def test_a_loop_without_children_ends_at_once_although_it_has_no_limit(deploy: Deploy) -> None:
    with deploy(seq("root", loop("lp"), says("z"))) as rt:
        assert short(run_turn(rt, "go")) == ["z z"]


def test_who_escalates_finishes_its_run_and_nobody_starts_behind_it(deploy: Deploy) -> None:
    with deploy(loop("lp", says("a"), gives_up("b"), says("c"), times=3)) as rt:
        assert short(run_turn(rt, "go")) == ["a a", "b enough !escalate", "b bye"]


def test_an_escalation_of_a_tool_in_the_middle_of_a_run_does_not_cut_the_run(deploy: Deploy) -> None:
    model = ScriptedModel([{"parts": [{"call": "good"}, {"call": "esc"}]}, "my last words", "never"])
    tools = [FunctionTool(esc), FunctionTool(good)]
    with deploy(loop("lp", thinks("a", model, *tools), says("b"), times=2)) as rt:
        assert short(run_turn(rt, "go"))[-1] == "a my last words"


def test_an_escalation_from_below_a_child_ends_the_loop(deploy: Deploy) -> None:
    model = ScriptedModel([{"transfer": "helper"}, {"call": "exit_loop"}])
    child = thinks("child", model, sub_agents=[thinks("helper", model)])
    with deploy(loop("lp", seq("steps", child, says("rest")), says("late"), times=3)) as rt:
        assert short(run_turn(rt, "go"))[2:] == [
            "helper call:exit_loop",
            "helper resp:exit_loop !escalate !skip",
            # The sequence below the loop is not cut: the escalation only travels through it.
            "rest rest",
        ]


@pytest.mark.parametrize(
    ("absorbing", "expected"),
    [
        ("none", ["x"]),
        ("inner", [*["x", "m"] * 2, "o"] * 2),
        ("middle", ["x", "o"] * 2),
        ("outer", ["x"]),
    ],
)
def test_of_loops_within_loops_the_one_that_absorbs_is_the_last_that_ends(
    deploy: Deploy, absorbing: str, expected: list[str]
) -> None:
    inner = loop("inner", says("x", esc=0), times=2, absorb=absorbing == "inner")
    middle = loop("middle", inner, says("m"), times=2, absorb=absorbing == "middle")
    outer = loop("outer", middle, says("o"), times=2, absorb=absorbing == "outer")
    with deploy(loop("top", outer, says("z"), times=1)) as rt:
        said = [event.author for event in run_turn(rt, "go") if event.text]
        assert said == [*expected, *(["z"] if absorbing != "none" else [])]


def test_a_sequence_runs_each_child_once_and_an_escalation_does_not_cut_it_but_travels_up(deploy: Deploy) -> None:
    with deploy(loop("lp", seq("s", says("a"), gives_up("b"), says("c")), says("d"), times=2)) as rt:
        assert short(run_turn(rt, "go")) == ["a a", "b enough !escalate", "b bye", "c c"]


def test_a_child_that_fails_ends_the_turn_and_is_the_one_that_is_named(deploy: Deploy) -> None:
    with deploy(seq("root", loop("lp", says("a"), FailingAgent(name="b"), times=2), says("z"))) as rt:
        with pytest.raises(AgentFailedError, match=r"agent 'b' failed: RuntimeError: boom"):
            run_turn(rt, "go")
        assert log(rt) == ["user go", "a a", "b pre", "b !err=RuntimeError"]
        with pytest.raises(AgentFailedError):
            run_turn(rt, "again")
        assert log(rt)[4:] == ["user again", "a a", "b pre", "b !err=RuntimeError"]


def test_a_transfer_below_a_workflow_stays_below_the_child(deploy: Deploy) -> None:
    model = ScriptedModel([{"transfer": "helper"}, "helped", "and b"])
    child = LlmAgent(name="a", model=model, sub_agents=[LlmAgent(name="helper", model=model)])
    with deploy(seq("root", child, LlmAgent(name="b", model=model))) as rt:
        assert short(run_turn(rt, "go")) == [
            "a call:transfer_to_agent",
            "a resp:transfer_to_agent !transfer=helper",
            "helper helped",
            "b and b",
        ]


def test_a_tool_that_hands_over_to_somebody_out_of_reach_fails_the_turn(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "route_s"}])
    with deploy(seq("root", thinks("a", model, FunctionTool(route_s)), says("s"))) as rt:
        with pytest.raises(TransferTargetError, match=r"'a'.*'s'"):
            run_turn(rt, "go")
        assert log(rt)[-2:] == ["a resp:route_s !transfer=s", "a !err=TransferTargetError"]


def test_callbacks_of_a_workflow_agent_surround_its_children(deploy: Deploy) -> None:
    inner = loop("lp", says("a"), times=2, after_agent_callback=sign, before_agent_callback=COUNTED["before_agent_callback"])
    with deploy(seq("root", inner, says("z"), **COUNTED)) as rt:
        assert short(run_turn(rt, "go")) == ["a a", "a a", "lp signed, lp", "z z"]
        assert state(rt) == {"root_begun": 1, "lp_begun": 1, "root_ended": 1}


def test_content_of_a_before_agent_callback_takes_the_place_of_the_whole_workflow(deploy: Deploy) -> None:
    skipped = loop("lp", says("a"), times=2, before_agent_callback=greet, after_agent_callback=sign)
    with deploy(seq("root", skipped, says("z"))) as rt:
        assert short(run_turn(rt, "go")) == ["lp before you ask", "z z"]


def test_a_second_turn_begins_the_workflow_anew(deploy: Deploy) -> None:
    model = PatternModel([], default="ok")
    with deploy(seq("root", LlmAgent(name="a", model=model), LlmAgent(name="b", model=model))) as rt:
        assert short(run_turn(rt, "one")) == short(run_turn(rt, "two")) == ["a ok", "b ok"]


def test_each_child_of_a_loop_sees_what_the_others_and_it_have_written_in_every_scope(deploy: Deploy) -> None:
    """A child that knows the state still does not ask for it again; one that does not know it any more has to."""
    keys = ("turns", "temp:turns", "user:turns", "app:turns")
    loops = [
        loop(f"l{i}", CountingAgent(name=f"a{i}", key=key), CountingAgent(name=f"b{i}", key=key), times=2)
        for i, key in enumerate(keys)
    ]
    with deploy(seq("root", *loops)) as rt:
        expected = [f"{name} {name}{runs}" for i in range(4) for runs, name in enumerate([f"a{i}", f"b{i}"] * 2, 1)]
        assert short(run_turn(rt, "go")) == expected


def test_a_loop_sees_what_another_session_wrote_for_the_user_between_its_turns(deploy: Deploy) -> None:
    with deploy(loop("root", CountingAgent(name="a", key="user:turns"), times=2)) as rt:
        for session_id, said in (("one", ["a a1", "a a2"]), ("two", ["a a3", "a a4"]), ("one", ["a a5", "a a6"])):
            assert short(run_turn(rt, "go", session_id)) == said


class Telling:
    """Says how many contents it was shown, and notes what the first and the last say."""

    def __init__(self) -> None:
        self.shown: list[tuple[str | None, str | None]] = []

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        texts = [content.parts[-1].text for content in request.contents]
        self.shown.append((texts[0], texts[-1]))
        yield LlmResponse(content=Content.of_text(f"{len(texts)}", role="model"))


def sequence(agents: int, model: Telling, include: Literal["default", "none"] = "default") -> SequentialAgent:
    """Agents that do nothing but speak."""
    children = [LlmAgent(name=f"a{number}", model=model, include_contents=include) for number in range(agents)]
    return SequentialAgent(name="root", sub_agents=children)


def run(rt: Runtime, user: str, message: str) -> list[Event]:
    return list(rt.run(user_id=user, session_id="s1", message=message, run_config=RunConfig(max_llm_calls=0)))


def replies(events: list[Event]) -> list[str]:
    return [event.text for event in events if event.text]


@pytest.mark.parametrize("include", ["default", "none"])
def test_a_child_of_a_long_sequence_decodes_what_is_new_and_not_the_whole_log(
    monkeypatch: pytest.MonkeyPatch, include: Literal["default", "none"]
) -> None:
    decoded: list[int] = []

    def noted(raw: bytes, seq: int) -> Event:
        decoded.append(seq)
        return decode_event(raw, seq)

    monkeypatch.setattr(views, "decode_event", noted)
    counts = []
    for agents in (80, 160):
        decoded.clear()
        with Runtime(sequence(agents, Telling(), include), app_name="long", engine="local", session_store="sqlite://") as rt:
            assert len(replies(run(rt, "ada", "go"))) == agents
        counts.append(len(decoded))
    # Each of the 80 more is preceded by one event that says something, and by few that note where the sequence is.
    assert counts[1] - counts[0] <= 80 * 4


def test_every_child_is_shown_all_that_was_said_also_after_a_rewind_and_in_a_branch() -> None:
    agents = 40
    model = Telling()
    with Runtime(sequence(agents, model), app_name="long", engine="local", session_store="sqlite://") as rt:
        expected = [str(number) for number in range(1, agents + 1)]
        first = run(rt, "ada", "one")
        assert replies(first) == expected
        # In the second turn every agent has spoken before: nobody begins with what another one has compiled.
        second = run(rt, "ada", "two")
        assert replies(second) == [str(number) for number in range(agents + 2, 2 * agents + 2)]
        rt.sessions.rewind("ada", "s1", first[0].invocation_id)
        assert replies(run(rt, "ada", "three")) == expected
        assert model.shown[-1] == ("three", f"[a{agents - 2}] said: {agents - 1}")
        assert replies(run(rt, "bob", "four")) == expected
        assert model.shown[-agents] == ("four", "four")


def test_an_agent_that_speaks_again_sees_what_it_has_said_as_its_own() -> None:
    roles: list[list[str | None]] = []

    class Noting(Telling):
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            roles.append([content.role for content in request.contents])
            async for response in super().generate(request, stream=stream):
                yield response

    model = Noting()
    root = LoopAgent(name="loop", sub_agents=[sequence(40, model)], max_iterations=2)
    with Runtime(root, app_name="long", engine="local", session_store="sqlite://") as rt:
        run(rt, "ada", "go")
    assert [each.count("model") for each in roles] == [0] * 40 + [1] * 40
