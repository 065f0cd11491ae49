"""Skills of google-adk: folders that an agent reads when it needs them, and tools that come with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk has an environment of its own: make test-adk", exc_type=ImportError)

from google.adk.agents import LlmAgent
from google.adk.skills import load_skill_from_dir
from google.adk.tools.skill_toolset import SkillToolset

from tests.adk import programs
from tests.support.runtimes import Deploy, run_turn

SKILL = """---
name: greet
description: Greets people.
metadata:
  adk_additional_tools:
    - shout
---
Say one of references/words.md.
"""


def shout(text: str) -> str:
    """Shout it."""
    return text.upper()


def host(folder: Path, *steps: Any) -> LlmAgent:
    """An agent with a skill, in a folder, which brings a tool."""
    (folder / "greet" / "references").mkdir(parents=True)
    (folder / "greet" / "SKILL.md").write_text(SKILL)
    (folder / "greet" / "references" / "words.md").write_text("Hello, hi, hej")
    toolset = SkillToolset([load_skill_from_dir(folder / "greet")], additional_tools=[shout])
    return LlmAgent(name="host", model=programs.Scripted(steps=steps), tools=[toolset])


def results(events: list[Any]) -> list[Any]:
    return [response.response for event in events for response in event.function_responses()]


def test_an_agent_reads_its_skills(deploy: Deploy, tmp_path: Path) -> None:
    load = ("load_skill", {"skill_name": "greet"})
    words = ("load_skill_resource", {"skill_name": "greet", "file_path": "references/words.md"})
    with deploy(host(tmp_path / "skills", ("list_skills", {}), load, words, "show:instruction")) as rt:
        events = run_turn(rt, "go")
        listed, loaded, read = results(events)
        assert "Greets people." in str(listed)
        assert loaded["instructions"] == "Say one of references/words.md."
        assert read["content"] == "Hello, hi, hej"
        assert "load_skill" in events[-1].text


def test_the_tools_of_a_skill_are_there_once_it_is_loaded(deploy: Deploy, tmp_path: Path) -> None:
    call = ("shout", {"text": "hej"})
    with deploy(host(tmp_path / "skills", call, ("load_skill", {"skill_name": "greet"}), call, "show:tools")) as rt:
        events = run_turn(rt, "go")
        too_early, _, shouted = results(events)
        assert "tool 'shout' is part of a skill: load that first" in too_early["error"]
        assert shouted == {"result": "HEJ"}
        assert "shout" in events[-1].text.split()
        # The skill stays loaded in the session.
        assert "shout" in run_turn(rt, "and now?")[-1].text.split()
