"""Updates of google-adk's trees: what is defined as before stays, whatever objects define it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.skills import load_skill_from_dir
from google.adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool
from google.adk.tools.skill_toolset import SkillToolset
from google.adk.workflow import Workflow

from tests.adk.programs import Doubler, agent
from tests.support.programs.skill_folders import skill_folder, skill_md
from tests.support.runtimes import Deploy


def function(told: str) -> Callable[..., str]:
    """A function that users define, which is another object each time."""

    def tell() -> str:
        """Tell it."""
        return told

    return tell


def skills(folder: Path, told: str) -> SkillToolset:
    skill_folder(folder, "greet", {**skill_md("greet"), "references/words.md": told})
    return SkillToolset([load_skill_from_dir(folder / "greet")])


KINDS: dict[str, Callable[[Path, str], Any]] = {
    "a function": lambda folder, told: agent("host", tools=[function(told)]),
    "tools": lambda folder, told: agent("host", tools=[Doubler(), LongRunningFunctionTool(function(told))]),
    "skills": lambda folder, told: agent("host", tools=[skills(folder, told)]),
    "an agent as a tool": lambda folder, told: agent(
        "root", tools=[AgentTool(agent("host", tools=[FunctionTool(function(told))]))]
    ),
    "a child": lambda folder, told: agent("root", sub_agents=[agent("host", tools=[FunctionTool(function(told))])]),
    "a node": lambda folder, told: Workflow(name="root", edges=[("START", agent("host", tools=[FunctionTool(function(told))]))]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_differs_is_changed(local: Deploy, tmp_path: Path, kind: str) -> None:
    made = KINDS[kind]
    with local(made(tmp_path / "skills", "old")) as rt:
        assert not rt.update(made(tmp_path / "skills", "old")).difference
        assert rt.update(made(tmp_path / "skills", "new")).difference.changed == ["host"]
