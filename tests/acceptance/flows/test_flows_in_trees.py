"""Flows beside other agents: in trees, in workflows, as tools, and as what came before in a conversation."""

from __future__ import annotations

import pytest

from actors import AgentTool, Flow, FlowAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent, Task
from actors.errors import AgentTreeError
from actors.testing import ScriptedModel
from tests.support.agents.flow_agents import ME, asked, succeed, worker
from tests.support.runtimes import Deploy


def test_a_flow_is_an_agent_of_a_tree(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"))
    editor = worker("editor", "Edited.")
    root = SequentialAgent(
        name="root", sub_agents=[FlowAgent(Flow([Task("1", name="t")], agents=[agent], name="search")), editor]
    )
    with local(root) as rt:
        result = rt.run(**ME, message="go").result()
    assert (result.text, result.tasks["t"].result) == ("Edited.", "found")
    assert "[search] said: found" in str(asked(editor)[0].contents)


def test_a_flow_in_a_loop_begins_anew_each_time(local: Deploy) -> None:
    agent = worker("a", succeed("t", "1"), succeed("t", "2"))
    flow = FlowAgent(Flow([Task("1", name="t")], agents=[agent]))
    with local(LoopAgent(name="loop", max_iterations=2, sub_agents=[flow])) as rt:
        result = rt.run(**ME, message="go").result()
    assert [event.text for event in result.events if event.text] == ["1", "2"]
    assert result.tasks["t"].result == "2"


def test_a_flow_is_a_tool_of_an_agent_and_works_on_what_it_is_asked(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"))
    search = FlowAgent(Flow([Task("1", name="t")], agents=[agent], name="search"))
    root = worker("root", {"call": "search", "args": {"request": "the key"}}, "It is found.", tools=[AgentTool(search)])
    with local(root) as rt:
        assert rt.run(**ME, message="go").result().text == "It is found."
    assert [content.text for content in asked(agent)[0].contents] == ["the key"]
    assert next(asked(root)[1].contents[-1].function_responses()).response == {"result": "found"}


def test_a_flow_that_only_names_its_agents_finds_them_in_the_tree(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"), "bye")
    flow = FlowAgent(Flow([Task("1", name="t", agents=["a"])]))
    with local(SequentialAgent(name="root", sub_agents=[flow, SequentialAgent(name="rest", sub_agents=[agent])])) as rt:
        turn = rt.run(**ME, message="go")
        events = [event.author for event in turn if event.flow is not None and event.flow.tasks]
        assert set(events) == {"a"}
    with pytest.raises(AgentTreeError, match=r"'flow' names agent 'b', which is not in it"):
        local(SequentialAgent(name="root", sub_agents=[FlowAgent(Flow([Task("1", agents=["b"])]))]))


def test_after_a_flow_the_conversation_goes_on_as_ever(local: Deploy) -> None:
    agent = worker("a", succeed("t", "found"), "Hello again.")
    root = LlmAgent(name="root", model=ScriptedModel([]), sub_agents=[agent])
    with local(root) as rt:
        rt.run_flow(Flow([Task("1", name="t")], agents=[agent]), **ME).result()
        turn = rt.run(**ME, message="hi")
        assert (turn.agent, turn.result().text) == ("a", "Hello again.")


def test_flows_beside_each_other_in_a_parallel_do_not_see_each_other(local: Deploy) -> None:
    agents = {name: worker(name, f"I am {name}", succeed("t", name)) for name in ("a", "b")}
    flows = [FlowAgent(Flow([Task("1", name="t")], agents=[agent], name=f"flow_{name}")) for name, agent in agents.items()]
    with local(ParallelAgent(name="both", sub_agents=flows)) as rt:
        events = rt.run(**ME, message="go").result().events
    assert {(event.author, event.branch) for event in events if event.flow is not None and event.flow.tasks} == {
        ("a", "both.flow_a"),
        ("b", "both.flow_b"),
    }
    for agent in agents.values():
        assert [content.text for content in asked(agent)[1].contents] == ["go", f"I am {agent.name}", "Go on with your tasks."]
