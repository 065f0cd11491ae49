"""Trees: what programs learn of them, and in those of thousands of agents what models see and which agents get the turns."""

from __future__ import annotations

import re
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

import pytest

from actors import AgentTool, BaseAgent, Flow, FlowAgent, LlmAgent, SequentialAgent, Task, tool
from actors.errors import AgentTreeError, UnknownAgentError
from actors.messages.llm import LlmRequest
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, author_texts, run_turn

PEOPLE = 300


@tool
def find_agents(words: str) -> str:
    """A tool of the user's with the name of ours."""
    return words


def office(model: ScriptedModel | PatternModel, count: int = PEOPLE) -> LlmAgent:
    """A root with many children, one of which pays money back and has an assistant."""
    aide = LlmAgent(name="aide", description="Writes letters.")
    refunds = LlmAgent(name="refunds", description="Pays money back.", sub_agents=[aide])
    clerks = [LlmAgent(name=f"clerk_{number}", description=f"Knows about {number}.") for number in range(count - 1)]
    return LlmAgent(name="desk", description="Knows everybody.", model=model, sub_agents=[*clerks, refunds])


def offered(request: LlmRequest) -> list[str]:
    return [declaration.name for declaration in request.tools]


def test_an_agent_with_hundreds_of_children_finds_the_right_one_and_its_prompt_stays_short(deploy: Deploy) -> None:
    model = ScriptedModel(
        [
            {"call": "find_agents", "args": {"query": "money back"}},
            {"transfer": "refund"},
            {"transfer": "refunds"},
            "It is paid.",
            {"parts": [{"call": "find_agents", "args": {"query": "clerk_7"}}, {"call": "find_agents"}]},
            {"transfer": "clerk_7"},
            {"transfer": "desk"},
            "Bye.",
        ]
    )
    with deploy(office(model)) as rt:
        first = run_turn(rt, "I want my money back")
        assert author_texts(first)[-1] == ("refunds", "It is paid.")
        assert [event.actions.transfer_to_agent for event in first if event.actions.transfer_to_agent] == ["refunds"]
        second = run_turn(rt, "And what about 7?")
        assert author_texts(second)[-1] == ("desk", "Bye.")
        assert [each.author for each in second if each.actions.transfer_to_agent] == ["refunds", "clerk_7"]
    found = next(first[1].function_responses()).response
    assert found == {"agents": [{"name": "refunds", "description": "Pays money back."}]}
    refused = next(first[3].function_responses()).response["error"]
    assert "Did you mean 'refunds'?" in refused
    assert "clerk_" not in refused
    names = [each.response for each in second[1].function_responses()]
    assert names[0]["agents"][0] == {"name": "clerk_7", "description": "Knows about 7."}
    assert "needs the argument query" in names[1]["error"]
    # At the desk, among three hundred; at the refunds, among as many peers; at a clerk of them; at the desk again.
    assert [request.agent for request in model.requests] == [*["desk"] * 3, *["refunds"] * 3, "clerk_7", "desk"]
    for request in model.requests:
        assert offered(request) == ["find_agents", "transfer_to_agent"]
        assert len(request.system_instruction) < 1_500
        assert "clerk_12" not in request.system_instruction
        assert ("parent agent, `desk`" in request.system_instruction) == (request.agent != "desk")
        assert ("- aide: Writes letters." in request.system_instruction) == (request.agent == "refunds")


def test_a_setting_says_how_many_are_listed(local: Deploy) -> None:
    model = ScriptedModel(["one", "two"])
    for most, tools in ((PEOPLE - 1, ["find_agents", "transfer_to_agent"]), (PEOPLE, ["transfer_to_agent"])):
        with local(office(model), settings=Settings(max_listed_targets=most)) as rt:
            run_turn(rt, "hi")
        assert offered(model.requests[-1]) == tools
    listed = re.findall(r"^- (\w+): ", model.requests[-1].system_instruction, re.MULTILINE)
    assert len(listed) == PEOPLE
    assert model.requests[-1].tools[0].parameters is not None
    assert model.requests[-1].tools[0].parameters["properties"]["agent_name"]["enum"] == listed


def test_the_name_of_the_search_tool_is_refused_only_where_there_is_one(local: Deploy) -> None:
    few = LlmAgent(name="root", model=PatternModel([]), tools=[find_agents], sub_agents=[LlmAgent(name="a")])
    local(few)
    many = [LlmAgent(name=f"a{number}") for number in range(65)]
    with pytest.raises(
        AgentTreeError, match=r"'root' may transfer to 65 agents, more than the 64 .*'find_agents'.* call its own tool otherwise"
    ):
        local(LlmAgent(name="root", model=PatternModel([]), tools=[find_agents], sub_agents=many))


def test_ten_thousand_children_of_one_root_are_an_ordinary_tree(local: Deploy) -> None:
    model = ScriptedModel(
        [{"call": "find_agents", "args": {"query": "who knows about 9998?"}}, {"transfer": "clerk_9998"}, "hello", "gladly"]
    )
    with local(office(model, count=10_000)) as rt:
        events = run_turn(rt, "Is there anybody for 9998?")
        assert author_texts(events)[-1] == ("clerk_9998", "hello")
        assert next(events[1].function_responses()).response["agents"][0]["name"] == "clerk_9998"
        assert author_texts(run_turn(rt, "go on")) == [("clerk_9998", "gladly")]


def test_thirty_levels_down_an_agent_is_reached_keeps_the_turn_and_hands_back(local: Deploy) -> None:
    agent: BaseAgent = LlmAgent(name="a30")
    for level in range(29, 0, -1):
        agent = LlmAgent(name=f"a{level}", sub_agents=[agent, *(LlmAgent(name=f"side_{level}_{side}") for side in range(3))])
    down = [{"transfer": f"a{level}"} for level in range(1, 31)]
    model = ScriptedModel([*down, "deep", "still deep", {"transfer": "a29"}, "up"])
    with local(LlmAgent(name="root", model=model, sub_agents=[agent])) as rt:
        assert author_texts(run_turn(rt, "down"))[-1] == ("a30", "deep")
        assert author_texts(run_turn(rt, "who?")) == [("a30", "still deep")]
        assert author_texts(run_turn(rt, "up"))[-1] == ("a29", "up")


class Cell(StringIO):
    """The value of a notebook's cell, as IPython lets objects write it."""

    def text(self, text: str) -> None:
        self.write(text)


@tool
def pay() -> None:
    """Pay."""


def small_office() -> LlmAgent:
    model = PatternModel([], default="hello")
    expert = LlmAgent(name="expert", description="Knows the law.")
    refunds = LlmAgent(name="refunds", description="Money back.", tools=[pay, AgentTool(expert)])
    flow = FlowAgent(Flow([Task("Look", agents=["refunds"])], name="report"))
    return LlmAgent(name="desk", model=model, sub_agents=[refunds, SequentialAgent(name="steps", sub_agents=[flow])])


async def test_the_tree_is_known_to_every_program(deploy: Deploy) -> None:
    with deploy(small_office()) as own, ExitStack() as stack:
        rts = [own] if deploy.engine == "local" else [own, stack.enter_context(Runtime.connect("test"))]
        for rt in rts:
            tree = rt.tree()
            assert [(each.name, each.parent, each.kind) for each in tree] == [
                ("desk", None, "llm"),
                ("refunds", "desk", "llm"),
                ("steps", "desk", "sequential"),
                ("report", "steps", "flow"),
            ]
            refunds, steps = tree.children
            assert (refunds.description, refunds.model, refunds.tools, refunds.agent_tools) == (
                "Money back.",
                "PatternModel",
                ("pay", "expert"),
                ("expert",),
            )
            assert steps.children[0].workers == ("refunds",)
            assert str(rt.tree(depth=1)) == (
                "desk (llm, PatternModel)\n"
                "  refunds (llm, PatternModel, pay, expert): Money back.\n"
                "  steps (sequential) [1 more below]"
            )
            cell = Cell()
            rt.tree("steps")._repr_pretty_(cell, False)
            assert cell.getvalue() == str(rt.tree("steps"))
            assert repr(rt.tree("steps")) == "AgentInfo(name='steps', kind='sequential', children=['report'])"
            assert [each.name for each in rt.find_agents("law")] == ["expert"]
            assert [each.name for each in rt.find_agents(tool="pay")] == ["refunds"]
            assert await rt.aio.tree("report") == rt.tree("report")
            assert await rt.aio.find_agents(kind="flow") == rt.find_agents(kind="flow")
            with pytest.raises(UnknownAgentError, match="Did you mean 'steps'"):
                rt.tree("step")


def test_a_tree_of_ten_thousand_agents_is_shown_in_part(tmp_path: Path) -> None:
    crowd = [LlmAgent(name=f"a{number}", description=f"About {number}.") for number in range(10_000)]
    rt = Deploy("local", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="hi"), sub_agents=crowd))
    tree = rt.tree()
    assert (len(list(tree)), tree.hidden) == (1_000, 9_001)
    assert str(tree).startswith("root (llm, PatternModel) [9001 more below]\n")
    assert len(repr(tree)) < 300
    assert [each.name for each in rt.find_agents("4711")] == ["a4711"]
