"""What a task says to its agents, which of them may end it, and how its flow waits for the user (semantics.md section 7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import Content, Flow, FunctionResponse, LlmAgent, Part, Paused, Task, ToolContext, tool
from actors.testing import ScriptedModel
from tests.support.agents.flow_agents import ME, Person, ask_user, asked, paused_flow, reply_to, states, succeed, worker
from tests.support.runtimes import Deploy


@tool(require_confirmation=True)
def delete(what: str) -> str:
    """Delete something."""
    return f"{what} is gone"


@pytest.mark.parametrize("is_root", [True, False])
def test_a_long_running_call_pauses_the_flow_and_its_answer_goes_on_there(local: Deploy, is_root: bool) -> None:
    flow, asking, busy = paused_flow()
    busy.model.replies.append(succeed("v", "all"))
    root = flow if is_root else LlmAgent(name="root", model=ScriptedModel([]), sub_agents=[asking, busy])
    with local(root) as rt:
        turn = rt.run(**ME, message="go") if is_root else rt.run_flow(flow, **ME)
        first = turn.result()
        assert isinstance(first.outcome, Paused)
        assert {name: task.status for name, task in first.tasks.items()} == {"t": "running", "u": "successful", "v": "pending"}
        second = rt.run(**ME, message=reply_to(turn, told="blue")).result()
    assert second.invocation_id == first.invocation_id
    assert {name: (task.status, task.result) for name, task in second.tasks.items()} == {
        "t": ("successful", "blue"),
        "u": ("successful", "done"),
        "v": ("successful", "all"),
    }
    assert next(asked(asking)[1].contents[-1].function_responses()).response == {"told": "blue"}
    # Work from before the pause is not repeated, and the independent agent sees nothing of the question.
    assert len(asked(busy)) == 2
    assert "Which?" not in str(asked(busy)[0].contents)


def test_a_paused_flow_goes_on_in_another_deployment_that_is_given_it_again(tmp_path: Path) -> None:
    flow, asking, busy = paused_flow()
    busy.model.replies.append(succeed("v", "all"))
    root = LlmAgent(name="root", model=ScriptedModel([]), sub_agents=[asking, busy])
    local = Deploy("local", tmp_path)
    with local(root) as rt:
        turn = rt.run_flow(flow, **ME)
        assert isinstance(turn.result().outcome, Paused)
        answer = reply_to(turn, told="blue")
    with local(root) as rt:
        result = rt.run_flow(flow, **ME, message=answer).result()
    assert result.invocation_id == turn.invocation_id
    assert {task.status for task in result.tasks.values()} == {"successful"}


@pytest.mark.parametrize(("confirmed", "told"), [(True, {"result": "it is gone"}), (False, None)])
def test_a_call_waits_for_the_users_consent(local: Deploy, confirmed: bool, told: dict[str, str] | None) -> None:
    agent = worker("a", {"call": "delete", "args": {"what": "it"}}, succeed("t", "x"), tools=[delete])
    with local(Flow([Task("1", name="t")], agents=[agent])) as rt:
        turn = rt.run(**ME, message="go")
        assert isinstance(turn.result().outcome, Paused)
        assert rt.run(**ME, message=reply_to(turn, confirmed=confirmed)).result().tasks["t"].status == "successful"
    (response,) = asked(agent)[1].contents[-1].function_responses()
    assert response.response == told if told is not None else "error" in response.response


@pytest.mark.parametrize("at_once", [True, False])
def test_several_agents_may_wait_for_the_user(local: Deploy, at_once: bool) -> None:
    agents = [
        worker(name, {"call": "ask_user", "args": {"question": name}}, succeed(name, name), tools=[ask_user]) for name in "ab"
    ]
    with local(Flow([Task("1", name=agent.name, agents=[agent]) for agent in agents])) as rt:
        turn = rt.run(**ME, message="go")
        assert isinstance(turn.result().outcome, Paused)
        calls = [call for event in turn for call in event.function_calls()]
        parts = [Part(function_response=FunctionResponse(id=call.id, name=call.name, response={"told": "x"})) for call in calls]
        for answer in [parts] if at_once else [parts[:1], parts[1:]]:
            last = rt.run(**ME, message=Content(role="user", parts=answer)).result()
            assert isinstance(last.outcome, Paused) == (answer == parts[:1])
    assert {name: task.result for name, task in last.tasks.items()} == {"a": "a", "b": "b"}
    assert [len(asked(agent)) for agent in agents] == [2, 2]


def test_a_deployed_flow_can_be_run_in_parts_and_its_results_are_typed_after_a_pause_too(local: Deploy) -> None:
    agent = worker(
        "a", {"call": "ask_user", "args": {"question": "?"}}, succeed("t", {"name": "Ada", "age": 36}), tools=[ask_user]
    )
    flow = Flow([Task("1", name="t", result_type=Person), Task("2", name="u", depends_on=["t"])], agents=[agent])
    with local(flow) as rt:
        turn = rt.run_flow(flow, **ME, tasks=["t"])
        assert isinstance(turn.result().outcome, Paused)
        answered = rt.run(**ME, message=reply_to(turn, told="x")).result()
        attached = rt.attach(**ME, invocation_id=turn.invocation_id).result()
    assert answered.tasks["t"].result == attached.tasks["t"].result == Person(name="Ada", age=36)
    assert answered.tasks["u"].status == "pending"


def test_a_question_whose_task_was_done_without_its_answer_keeps_nobody_waiting(local: Deploy) -> None:
    both = {"parts": [{"call": "ask_user", "args": {"question": "?"}}, succeed("t", "x")]}
    agent = worker("a", both, succeed("u", "y"), tools=[ask_user])
    with local(Flow([Task("1", name="t"), Task("2", name="u", depends_on=["t"])], agents=[agent])) as rt:
        result = rt.run(**ME, message="go").result()
    assert not isinstance(result.outcome, Paused)
    assert {name: task.result for name, task in result.tasks.items()} == {"t": "x", "u": "y"}


END_TURN: Any = {"call": "end_turn"}


def tools_of(agent: LlmAgent, call: int = 0) -> set[str]:
    """The tools that the agent's model was given."""
    return {tool.name for tool in asked(agent)[call].tools}


def test_values_are_shown_with_the_objective_to_the_agents_of_the_task_alone(local: Deploy) -> None:
    first, second = worker("first", succeed("sort", 0)), worker("second", succeed("other", "x"))
    headline = {"text": "It rains {a lot}", "words": [3]}
    flow = Flow(
        [
            Task(
                "Sort the headline.",
                name="sort",
                agents=[first],
                result_type=["weather", "sport"],
                context={"headline": headline, "author": Person(name="Ada", age=36), "hint": "Use {no} template.", "page": None},
            ),
            Task("Something else.", name="other", agents=[second], depends_on=["sort"]),
        ]
    )
    with local(flow) as rt:
        assert states(rt.run(**ME, message="go")) == {"sort": "successful", "other": "successful"}
    shown = asked(first)[0].system_instruction
    assert "`sort`: Sort the headline.\n  What belongs to it:\n" in shown
    assert '  - headline: {"text":"It rains {a lot}","words":[3]}\n' in shown
    assert '  - author: {"name":"Ada","age":36}\n  - hint: Use {no} template.\n  - page: none\n' in shown
    assert "headline:" not in asked(second)[0].system_instruction


def test_a_task_as_a_value_is_its_result_and_a_dependency(local: Deploy) -> None:
    agent = worker("a", succeed("who", {"name": "Ada", "age": 36}), succeed("where", "London"), succeed("say", "Hello"))
    who = Task("Who is it?", name="who", result_type=Person)
    where = Task("Where is it?", name="where")
    # Only the last task is listed: what it needs belongs to the flow.
    flow = Flow([Task("Say hello.", name="say", context={"guest": who, "place": where})], agents=[agent])
    assert flow.plan.nodes[-1].depends_on == ("who", "where")
    with local(flow) as rt:
        assert rt.run(**ME, message="go").result().text == "Hello"
    shown = asked(agent)[2].system_instruction
    assert '  - guest (the result of `who`: Who is it?): {"name":"Ada","age":36}\n' in shown
    assert "  - place (the result of `where`: Where is it?): London\n" in shown
    # It is not told twice.
    assert "These tasks were done before" not in shown


def test_a_failed_task_as_a_value_skips_the_task_or_is_shown_with_its_reason(local: Deploy) -> None:
    agent = worker("a", {"call": "fail_who", "args": {"reason": "nobody is there"}}, succeed("all_the_same", "Hello"))
    who = Task("Who is it?", name="who")
    flow = Flow(
        [
            Task("Say hello.", name="say", context={"guest": who}),
            Task("Say hello.", name="all_the_same", context={"guest": who}, on_failed_dependency="run"),
        ],
        agents=[agent],
    )
    with local(flow) as rt:
        assert states(rt.run(**ME, message="go")) == {"who": "failed", "say": "skipped", "all_the_same": "successful"}
    assert "- guest (`who` was failed: Who is it?): nobody is there\n" in asked(agent)[1].system_instruction


def test_instructions_are_a_template_shown_to_those_who_work_on_the_task_and_only_then(local: Deploy) -> None:
    one, two = worker("one", succeed("t", "x"), succeed("u", "y")), worker("two", succeed("v", "z"))
    flow = Flow(
        [
            Task("Do t.", name="t", agents=[one], instructions="Be {how}."),
            Task("Do u.", name="u", agents=[one], depends_on=["t"], instructions="Be quick."),
            Task("Do v.", name="v", agents=[two], depends_on=["u"]),
        ]
    )
    with local(flow) as rt:
        rt.run(**ME, message="go", state_delta={"how": "kind"}).result()
    first, second, third = (request.system_instruction for request in [*asked(one), *asked(two)])
    assert "`t`: Do t.\n  How to go about it: Be kind.\n" in first
    assert "Be quick." not in first
    assert "Be quick." in second
    assert "Be kind." not in second
    assert "Be" not in third


def test_only_completion_agents_get_the_tools_that_end_the_task(local: Deploy) -> None:
    jerry = worker("jerry", succeed("talk", "I am done"), {"parts": ["What is the deal?", END_TURN]})
    george = worker("george", {"parts": ["I am George.", {"call": "end_turn", "args": {"next_agent": "kramer"}}]})
    kramer = worker("kramer", {"call": "fail_talk", "args": {"reason": "bored"}}, {"parts": ["Giddy up.", END_TURN]})
    narrator = worker("narrator", succeed("talk", "They talked."))
    flow = Flow(
        [Task("Talk about nothing.", name="talk", completion_agents=[narrator])], agents=[jerry, george, kramer, narrator]
    )
    with local(flow) as rt:
        result = rt.run(**ME, message="go").result()
        said = [event.author for event in result.events if event.text and event.author != "flow"]
    assert result.tasks["talk"].result == "They talked."
    assert said == ["jerry", "george", "kramer"]
    for agent in (jerry, george, kramer):
        assert tools_of(agent) == {"end_turn"}
        assert "only narrator can end it: when you have done your part, call `end_turn`" in asked(agent)[0].system_instruction
        assert "succeed_talk" not in asked(agent)[0].system_instruction
    assert tools_of(narrator) == {"end_turn", "succeed_talk", "fail_talk"}
    # Calls of tools that they were not given are errors to their models, and end nothing.
    for agent, each in ((jerry, "succeed_talk"), (kramer, "fail_talk")):
        (told,) = asked(agent)[1].contents[-1].function_responses()
        assert each in told.response["error"]


def test_an_agent_that_may_end_one_of_its_tasks_gets_the_tools_of_that_one(local: Deploy) -> None:
    helper = worker("helper", {"parts": [succeed("mine", "1"), "I have looked at the other as well."]}, END_TURN)
    boss = worker("boss", succeed("hers", "2"))
    flow = Flow(
        [Task("x", name="mine", agents=[helper]), Task("y", name="hers", completion_agents=[boss])], agents=[helper, boss]
    )
    with local(flow) as rt:
        assert states(rt.run(**ME, message="go")) == {"mine": "successful", "hers": "successful"}
    assert tools_of(helper) == {"succeed_mine", "fail_mine", "end_turn"}


def test_of_an_earlier_objective_only_what_is_short_is_seen(local: Deploy) -> None:
    """A template that shows an artifact stays one, for artifacts may be large; state that is long is cut."""

    async def note(tool_context: ToolContext) -> str:
        """Save a note."""
        await tool_context.save_artifact("note.txt", Part(text="gold"))
        return "saved"

    root = worker("root", {"call": "note"}, *(succeed("task_1", str(number)) for number in range(4)), tools=[note])
    with local(root) as rt:
        for objective in ("Write a note.", "Read {artifact.note.txt}", "Remember {long}", "Say {gone?}"):
            rt.run_task(objective, session_id="s1", state_delta={"long": "x" * 5_000})
    seen = "\n".join(content.text for content in asked(root)[-1].contents)
    assert "Read gold" in asked(root)[2].system_instruction
    assert "was successful: Read {artifact.note.txt}" in seen
    assert f"was successful: Remember {'x' * 1_000}" in seen
    assert "x" * 2_000 not in seen


def test_later_tasks_of_a_session_see_earlier_objectives_with_their_results(local: Deploy) -> None:
    thinker = worker("thinker", succeed("task_1", "Divide it."), succeed("task_1", "It is 7."), succeed("check", True))
    model = ScriptedModel([{"call": "fail_task_1", "args": {"reason": "too hard"}}, succeed("task_1", "Now I know.")])
    other = LlmAgent(name="other", model=model)
    with local(LlmAgent(name="root", model=ScriptedModel([]), sub_agents=[thinker, other])) as rt:
        for objective in ("Plan how to solve {what}.", "Solve it."):
            rt.run_task(objective, agents=["thinker"], session_id="s1", state_delta={"what": "14 / 2"})
        (plan,) = [content.text for content in asked(thinker)[1].contents if "successful" in content.text]
        assert "The task `task_1` was successful: Plan how to solve 14 / 2." in plan
        assert "Divide it." in plan
        rt.run_task("Check it.", name="check", result_type=bool, agents=["thinker"], session_id="s1")
        seen = "\n".join(content.text for content in asked(thinker)[2].contents)
        assert (
            seen.index("Plan how to solve 14 / 2.") < seen.index("Divide it.") < seen.index("Solve it.") < seen.index("It is 7.")
        )
        # Another agent sees the same, and of a failed task its reason.
        for _ in range(2):
            rt.run_flow(Flow([Task("Explain it.", name="task_1")], agents=["other"]), user_id="user", session_id="s1").result()
        seen = "\n".join(content.text for content in model.requests[1].contents)
        assert "The task `check` was successful: Check it." in seen
        assert "The task `task_1` was failed: Explain it." in seen
        assert "too hard" in seen
        # Another session is not seen.
        thinker.model.replies.append(succeed("task_1", "x"))
        rt.run_task("Begin anew.", agents=["thinker"], session_id="s2")
        assert "Solve it." not in "".join(content.text for content in asked(thinker)[3].contents)
