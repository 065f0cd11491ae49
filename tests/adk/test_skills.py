"""Skills of google-adk: folders that an agent reads when it needs them, scripts in them, and tools that come with them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.code_executors.unsafe_local_code_executor import UnsafeLocalCodeExecutor
from google.adk.environment import LocalEnvironment
from google.adk.runners import InMemoryRunner
from google.adk.skills import SkillRegistry, load_skill_from_dir
from google.adk.skills.models import Frontmatter, Skill
from google.adk.tools.skill_toolset import SkillDiscoveryMode, SkillLifecycleConfig, SkillLifecycleMode, SkillToolset
from google.genai import types

from actors import Event
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


COUNT = """import sys
from pathlib import Path
print(len(Path("references/words.md").read_text()), sys.argv[1:])
Path("out.txt").write_text("made")
"""


class Shelf(SkillRegistry):  # type: ignore[misc]
    """Has one skill."""

    def __init__(self, skill: Skill) -> None:
        self._skill = skill

    async def search_skills(self, query: str) -> list[Frontmatter]:
        return [self._skill.frontmatter]

    async def get_skill(self, *, name: str) -> Skill | None:
        return self._skill if name == self._skill.name else None


def greeting(folder: Path) -> Skill:
    """A skill in a folder, which brings a tool."""
    for path, data in (
        ("SKILL.md", SKILL.encode()),
        ("references/words.md", b"Hello, hi, hej"),
        ("assets/logo.png", b"\x89PNG\xff"),
        ("scripts/count.py", COUNT.encode()),
        ("scripts/fail.sh", b'echo "failed $1"; exit 3\n'),
    ):
        (folder / "greet" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "greet" / path).write_bytes(data)
    return load_skill_from_dir(folder / "greet")


def host(folder: Path, *steps: Any, is_shelved: bool = False, **options: Any) -> LlmAgent:
    """An agent with that skill, or with a registry that has it."""
    skill = greeting(folder)
    skills, registry = ([], Shelf(skill)) if is_shelved else ([skill], None)
    toolset = SkillToolset(skills, registry=registry, additional_tools=[shout], **options)
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


NAME = {"skill_name": "greet"}
LOAD = ("load_skill", NAME)
SHOUT = ("shout", {"text": "hej"})


def read(path: str) -> tuple[str, dict[str, Any]]:
    return "load_skill_resource", {**NAME, "file_path": path}


def script(path: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "run_skill_script", {**NAME, "file_path": path, **more}


SCRIPTS = [
    script("scripts/count.py", args={"a": 1}),
    script("scripts/count.py", args=["x"]),
    script("scripts/fail.sh", positional_args=["q"]),
    script("scripts/no.py"),
    script("../count.py"),
    "show:tools",
]
PATHS = [read("assets/logo.png"), read("../SKILL.md"), read("references/no.md"), read("references/none.md"), "show:texts"]
CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "paths": (PATHS, {}),
    "an image": ([read("assets/logo.png"), "show:texts"], {}),
    "scripts": (SCRIPTS, {"code_executor": UnsafeLocalCodeExecutor()}),
    "files of scripts": ([*SCRIPTS[:1], "ok"], {"code_executor": UnsafeLocalCodeExecutor(), "save_output_artifacts": True}),
    "named in the instruction": (["show:instruction"], {"discovery_mode": SkillDiscoveryMode.EAGER}),
    "prefixed": ([("my_load_skill", NAME), ("my_shout", {"text": "hej"}), "show:tools"], {"tool_name_prefix": "my"}),
    "of a registry": ([("search_skills", {"query": "greet"}), LOAD, SHOUT, "show:tools"], {"is_shelved": True}),
    "for a turn": (
        [LOAD, SHOUT, "show:tools"],
        {"lifecycle_config": SkillLifecycleConfig(default_mode=SkillLifecycleMode.EPHEMERAL)},
    ),
}


def told(events: list[Any]) -> list[Any]:
    """Texts, calls and results."""
    parts = [part for event in events if event.content for part in event.content.parts or ()]
    return [
        part.text
        or (part.function_call and (part.function_call.name, part.function_call.args))
        or (part.function_response.name, part.function_response.response)
        for part in parts
    ]


async def by_adk(agent: LlmAgent) -> list[Any]:
    """What ADK's own Runner tells in two turns."""
    runner = InMemoryRunner(agent=agent, app_name="test")
    place = {"user_id": "ada", "session_id": "s1"}
    await runner.session_service.create_session(app_name="test", **place)
    events: list[Any] = []
    for text in ("go", "and now?"):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        events += [event async for event in runner.run_async(new_message=message, **place)]
    return told(events)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_all_options_do_what_they_do_in_adk(deploy: Deploy, tmp_path: Path, case: str) -> None:
    steps, options = CASES[case]
    theirs = asyncio.run(by_adk(host(tmp_path / "skills", *steps, **options)))
    with deploy(host(tmp_path / "skills", *steps, **options)) as rt:
        events: list[Event] = run_turn(rt, "go") + run_turn(rt, "and now?")
    assert told(events) == theirs


def test_scripts_run_in_an_environment(deploy: Deploy, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    environment = LocalEnvironment(working_dir=tmp_path / "work")
    command = f"cd {tmp_path}/work/skills/greet && ls scripts"
    with deploy(host(tmp_path / "skills", script("scripts/count.py", command=command), "ok", environment=environment)) as rt:
        (ran,) = results(run_turn(rt, "go"))
        assert ran == {"stdout": "count.py\nfail.sh\n", "stderr": "", "exit_code": 0, "timed_out": False}
