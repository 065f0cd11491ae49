"""Folders of ADK programs run as by `adk run`, and updates of their trees leave what is defined as before as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.skills import load_skill_from_dir
from google.adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool
from google.adk.tools.skill_toolset import SkillToolset
from google.adk.workflow import Workflow

from actors.errors import DefinitionError, RequestError
from runtime.frontends.loading.app import load_app
from tests.adk.programs import Doubler, agent
from tests.support.app_folders import fresh_imports, write
from tests.support.console import invoke
from tests.support.programs.skill_folders import skill_folder, skill_md
from tests.support.runtimes import Deploy

GRAPH = """
    from google.adk.events import Event
    from google.adk.workflow import START, Workflow


    def say(node_input):
        return f"you said {node_input.parts[0].text}"


    def shout(node_input: str):
        return Event(message=node_input.upper())


    NAME = Workflow(name="shouting", edges=[(START, say, shout)])
"""

MODELS = """
    from tests.adk.programs import Scripted

    weatherman = Scripted(steps=[("get_weather", {"city": "Rome"}), "show:last"])
    quiet = Scripted(steps=["It is fine."])


    def get_weather(city: str) -> dict:
        \"\"\"Tell the weather.\"\"\"
        return {"report": f"{city}: 20"}
"""

LLM = """
    agent_class: LlmAgent
    name: weather
    model_code:
      name: {folder}.parts.weatherman
    instruction: Tell the weather.
    tools:
      - name: {folder}.parts.get_weather
"""

TEAM = """
    agent_class: SequentialAgent
    name: team
    sub_agents:
      - config_path: first.yaml
      - config_path: second.yaml
"""

MEMBER = """
    name: {name}
    model_code:
      name: team_y.parts.quiet
    instruction: Speak.
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with fresh_imports():
        yield


@pytest.mark.parametrize("is_island", [False, True])
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_folder_with_a_graph_runs_and_a_note_names_an_island(
    engine: str, is_island: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    options = []
    if engine == "ray":
        request.getfixturevalue("local_ray")
        options = ["--ray"]
    program = GRAPH.replace("NAME", "root_agent")
    if is_island:
        own = "import START\n    from tests.adk.programs import OwnWorkflow as Workflow"
        program = program.replace("import START, Workflow", own)
    write(tmp_path / f"shout_{engine}", {"agent.py": program})
    result = invoke("run", f"./shout_{engine}", "hi", *options)
    assert (result.exit_code, result.stdout) == (0, "YOU SAID HI\n")
    assert ("so ADK's own Runner runs it" in result.stderr) is is_island


def test_a_graph_needs_no_particular_name(tmp_path: Path) -> None:
    write(tmp_path, {"shout_n.py": GRAPH.replace("NAME", "shouting")})
    assert getattr(load_app("shout_n.py").root, "name", "") == "shouting"


def test_the_tree_of_a_graph_is_shown(tmp_path: Path) -> None:
    write(tmp_path / "shout_t", {"agent.py": GRAPH.replace("NAME", "app")})
    assert "shouting" in invoke("tree", "./shout_t").stdout


@pytest.mark.parametrize("engine", ["local", "ray"])
@pytest.mark.parametrize("given", ["", "/root_agent.yaml"])
def test_a_folder_with_a_yaml_file_runs(given: str, engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    options = []
    if engine == "ray":
        request.getfixturevalue("local_ray")
        options = ["--ray"]
    folder = f"weather_{engine}{len(given)}"
    write(tmp_path / folder, {"root_agent.yaml": LLM.format(folder=folder), "parts.py": MODELS})
    result = invoke("run", f"./{folder}{given}", "hi", *options)
    assert (result.exit_code, result.stdout) == (0, "{'report': 'Rome: 20'}\n"), result.stderr


def test_a_yaml_file_may_name_other_files_and_stand_beside_code(tmp_path: Path) -> None:
    files = {"root_agent.yaml": TEAM, "parts.py": MODELS, "agent.py": "helper = 1\n", "__init__.py": ""}
    members = {f"{name}.yaml": MEMBER.format(name=name) for name in ("first", "second")}
    write(tmp_path / "team_y", {**files, **members})
    assert load_app("team_y").name == "team_y"
    result = invoke("run", "./team_y", "hi", "--verbose")
    assert (result.exit_code, result.stdout.count("It is fine.")) == (0, 2)


def test_code_comes_before_the_yaml_file(tmp_path: Path) -> None:
    write(tmp_path / "both_y", {"root_agent.yaml": LLM, "agent.py": GRAPH.replace("NAME", "root_agent")})
    assert getattr(load_app("both_y").root, "name", "") == "shouting"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name: [", r"bad_y/root_agent.yaml describes no agent: .*expected the node content"),
        ("", r"describes no agent: .*File is empty"),
        ("name: a\nmodel: m\ninstruction: i\nno_such_field: 1\n", r"describes no agent: .*no_such_field"),
        ("name: a\nmodel: m\ninstruction: i\ntools:\n  - name: bad_y.nowhere.tool\n", r"describes no agent: .*bad_y\.nowhere"),
    ],
)
def test_a_wrong_yaml_file_is_told_in_a_line(text: str, named: str, tmp_path: Path) -> None:
    write(tmp_path / "bad_y", {"root_agent.yaml": text})
    with pytest.raises(DefinitionError, match=named) as raised:
        load_app("bad_y")
    assert "\n" not in str(raised.value)


def test_a_folder_of_folders_names_those_with_yaml_files(tmp_path: Path) -> None:
    write(tmp_path / "many" / "one", {"root_agent.yaml": "name: a"})
    with pytest.raises(RequestError, match=r"Did you mean many/one\?"):
        load_app("many")


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
