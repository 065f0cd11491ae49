"""What a task says to its agents, and which of them may end it (semantics.md section 7)."""

from __future__ import annotations

from typing import Any

from actors import Flow, LlmAgent, Part, Task, ToolContext
from actors.testing import ScriptedModel
from tests.support.agents.flow_agents import ME, Person, asked, states, succeed, worker
from tests.support.runtimes import Deploy

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
    for agent, tool in ((jerry, "succeed_talk"), (kramer, "fail_talk")):
        (told,) = asked(agent)[1].contents[-1].function_responses()
        assert tool in told.response["error"]


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
