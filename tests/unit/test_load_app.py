"""Apps are found by their paths, and imported; what is wrong with a path is said in a line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.errors import DefinitionError, RequestError
from runtime.frontends.loading.app import agent_of_config, load_app
from tests.support.app_folders import HELLO, desk, fresh_imports, write
from tests.support.modules import forget_modules


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with fresh_imports():
        yield


def test_a_folder_with_agent_py_may_import_its_own_modules(tmp_path: Path) -> None:
    app = load_app(str(desk(tmp_path / "apps" / "desk_a")))
    assert (app.name, app.folder, app.is_importable) == ("desk_a", str(tmp_path / "apps"), True)
    assert getattr(app.root, "name", "") == "concierge"


def test_what_is_written_anew_within_a_second_is_loaded_anew(tmp_path: Path) -> None:
    for name in ("alice", "bobby"):
        folder = write(tmp_path / "same_second", {"agent.py": HELLO.replace("greeter", name)})
        os.utime(folder / "agent.py", (1_000_000_000, 1_000_000_000))
        with fresh_imports():
            assert getattr(load_app(str(folder)).root, "name", "") == name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("pack_b", "pack_b"),
        ("pack_b/agent.py", "pack_b"),
        ("pack_b/", "pack_b"),
        ("pack_b:other", "pack_b"),
        ("pack_b.agent:root_agent", "agent"),
        ("single_b.py", "single_b"),
        ("single_b.py:root_agent", "single_b"),
        ("my-app", "my-app"),
        ("init_only", "init_only"),
    ],
)
def test_an_app_is_named_by_folder_file_or_module(given: str, name: str, tmp_path: Path) -> None:
    other = "\n    other = LlmAgent(name='other', model=PatternModel([]))\n"
    write(tmp_path / "pack_b", {"__init__.py": "from . import agent\n", "agent.py": HELLO + other})
    write(tmp_path, {"single_b.py": HELLO})
    write(tmp_path / "my-app", {"agent.py": HELLO})
    write(tmp_path / "init_only", {"__init__.py": HELLO})
    app = load_app(given)
    assert app.name == name
    assert getattr(app.root, "name", "") == ("other" if "other" in given else "greeter")


def test_a_file_with_one_tree_needs_no_particular_name(tmp_path: Path) -> None:
    code = """
        from actors import AgentTool, Flow, LlmAgent, Task

        helper = LlmAgent(name="helper", model="gemini-2.5-flash", description="Helps.")
        child = LlmAgent(name="child", model="gemini-2.5-flash", tools=[AgentTool(helper)])
        top = LlmAgent(name="top", model="gemini-2.5-flash", sub_agents=[child])
        again = top
    """
    write(tmp_path, {"tree_c.py": code})
    assert getattr(load_app("tree_c.py").root, "name", "") == "top"


def test_a_file_named_like_another_module_is_loaded_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, {"json.py": HELLO})
    app = load_app("json.py")
    assert (app.name, app.is_importable) == ("json", False)


TWO = """
    from actors import LlmAgent

    first = LlmAgent(name="first", model="gemini-2.5-flash")
    second = LlmAgent(name="second", model="gemini-2.5-flash")
"""


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("nowhere", r"there is no file or folder 'nowhere': give a folder with agent.py, a Python file, or module:attribute"),
        ("nowhere.module:root_agent", r"there is no module 'nowhere'"),
        ("notes.txt", r"'notes.txt' is no Python file"),
        ("apps", r"the folder 'apps' has no agent.py. Did you mean apps/one or apps/two\?"),
        ("plain", r"the folder 'plain' has no agent.py: give a folder"),
        ("with.dots", r"'with.dots' cannot be imported: its name must not have dots, so rename it"),
        ("logging", r"the folder 'logging' cannot be imported as 'logging', which is .*__init__.py: rename the folder"),
        ("none_d.py", r"none_d.py defines no agent: name the root of its tree root_agent"),
        ("two_d.py", r"two_d.py has several agents .* choose one, such as two_d.py:first or two_d.py:second"),
        ("two_d.py:frist", r"two_d.py has no 'frist'. Did you mean 'first'\?"),
        ("two_d.py:x.y", r"'x.y' is no name of an agent: write it as two_d.py:root_agent"),
    ],
)
def test_what_is_wrong_with_a_path_is_said_with_a_way_out(given: str, error: str, tmp_path: Path) -> None:
    write(tmp_path, {"notes.txt": "", "none_d.py": "x = 1\n", "two_d.py": TWO})
    for name in ("apps/one", "apps/two", "with.dots", "logging"):
        write(tmp_path / name, {"agent.py": HELLO})
    write(tmp_path / "plain", {"main.py": ""})
    with pytest.raises(RequestError, match=error) as raised:
        load_app(given)
    assert "\n" not in str(raised.value)


def test_an_error_while_importing_has_the_traceback_of_the_app_only(tmp_path: Path) -> None:
    write(tmp_path / "broken_e", {"agent.py": "from .inner import f\n\nf()\n", "inner.py": "def f():\n    return {}['key']\n"})
    with pytest.raises(DefinitionError, match=r"^broken_e cannot be imported: KeyError: 'key'") as raised:
        load_app("broken_e")
    files = [line.split('"')[1] for line in raised.value.remote_traceback.splitlines() if line.startswith("  File")]
    assert files == [f"{tmp_path}/broken_e/agent.py", f"{tmp_path}/broken_e/inner.py"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("def f(:\n", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit('no key')\n", "SystemExit: no key"),
    ],
)
def test_whatever_importing_raises_is_told_in_a_line(code: str, error: str, tmp_path: Path) -> None:
    write(tmp_path, {"fails_f.py": code})
    with pytest.raises(DefinitionError, match=f"fails_f.py cannot be imported: {error}"):
        load_app("fails_f.py")


def test_a_root_that_is_no_agent_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"number_g.py": "agent = 42\n"})
    with pytest.raises(DefinitionError, match=r"number_g\.py:agent must be an agent or a flow, not int"):
        load_app("number_g.py:agent")


def test_an_adk_agent_is_a_root_as_well(tmp_path: Path) -> None:
    code = """
        class BaseAgent:
            pass


        BaseAgent.__module__ = "google.adk.agents.base_agent"


        class Mine(BaseAgent):
            pass


        root_agent = Mine()
    """
    write(tmp_path / "adk_h", {"agent.py": code})
    assert type(load_app("adk_h").root).__name__ == "Mine"


def test_a_yaml_file_needs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_modules(monkeypatch, "runtime.adk", "runtime.integrations.adk")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    write(tmp_path / "yaml_k", {"root_agent.yaml": "name: a\n"})
    with pytest.raises(DefinitionError, match=r"pip install 'raygrove\[adk\]'"):
        agent_of_config(tmp_path / "yaml_k" / "root_agent.yaml")


def test_variables_of_the_env_file_are_set_and_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_MODE", "test")
    lines = '# keys\nexport DESK_KEY="a b"  # quoted\nDESK_MODE=live\nRAYGROVE_RUNNERS=1\n\nDESK_PLAIN=x#y\n'
    folder = write(tmp_path / "env_i", {"agent.py": HELLO, ".env": lines})
    app = load_app("env_i")
    assert (os.environ["DESK_KEY"], os.environ["DESK_MODE"], os.environ["DESK_PLAIN"]) == ("a b", "test", "x#y")
    assert app.settings(on_ray=False).variables == {"DESK_KEY": "a b", "DESK_MODE": "test", "DESK_PLAIN": "x#y"}
    assert app.settings(on_ray=True).variables["PYTHONPATH"].split(os.pathsep)[0] == str(folder.parent)


def test_the_env_file_may_lie_in_a_folder_above_up_to_the_working_directory(tmp_path: Path) -> None:
    write(tmp_path, {".env": "DESK_KEY=top\n"})
    write(tmp_path / "agents" / "env_j", {"agent.py": HELLO})
    assert load_app("agents/env_j").variables == {"DESK_KEY": "top"}
