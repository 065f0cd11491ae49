"""What a program can learn of the deployed agents, whether it has started the deployment or joined it."""

from __future__ import annotations

from contextlib import ExitStack
from io import StringIO
from pathlib import Path

import pytest

from actors import AgentTool, Flow, FlowAgent, LlmAgent, SequentialAgent, Task, tool
from actors.errors import UnknownAgentError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.runtimes import Deploy


class Cell(StringIO):
    """The value of a notebook's cell, as IPython lets objects write it."""

    def text(self, text: str) -> None:
        self.write(text)


@tool
def pay() -> None:
    """Pay."""


def office() -> LlmAgent:
    model = PatternModel([], default="hello")
    expert = LlmAgent(name="expert", description="Knows the law.")
    refunds = LlmAgent(name="refunds", description="Money back.", tools=[pay, AgentTool(expert)])
    flow = FlowAgent(Flow([Task("Look", agents=["refunds"])], name="report"))
    return LlmAgent(name="desk", model=model, sub_agents=[refunds, SequentialAgent(name="steps", sub_agents=[flow])])


async def test_the_tree_is_known_to_every_program(deploy: Deploy) -> None:
    with deploy(office()) as own, ExitStack() as stack:
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
