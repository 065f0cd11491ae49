"""Skills: an agent knows their names, reads them when it needs them, and runs their scripts where it may."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from actors import Blob, LlmAgent, LlmRequest, Part
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.integrations.code.tool import python_tool
from runtime.integrations.skills.toolset import SkillToolset
from runtime.settings import Settings
from tests.support.programs.skill_folders import LOGO, MINUTES_MD, skill_folder, skill_md
from tests.support.runtimes import Deploy, run_turn, saved_blob

NAME = {"skill_name": "meeting-minutes"}
LOAD = {"call": "load_skill", "args": NAME}

RECORDED = Settings(record_requests="on")


def file(path: str, **more: Any) -> dict[str, Any]:
    return {"call": "load_skill_resource", "args": {**NAME, "file_path": path, **more}}


def script(path: str, *args: Any, **more: Any) -> dict[str, Any]:
    return {"call": "run_skill_script", "args": {**NAME, "file_path": path, "args": list(args), **more}}


def clerk(toolset: SkillToolset, *steps: Any) -> LlmAgent:
    return LlmAgent(name="clerk", model=ScriptedModel([*steps, "done"]), tools=[toolset])


def results(rt: Runtime, message: str = "go") -> list[dict[str, Any]]:
    return [response.response for event in run_turn(rt, message) for response in event.function_responses()]


def asked(rt: Runtime) -> list[LlmRequest]:
    """What the model was asked in the newest turn."""
    (turn, *_) = rt.turns.list()
    requests = [call.request for call in rt.turns.requests("ada", "s1", turn.invocation_id)]
    return [request for request in requests if request is not None]


def test_an_agent_reads_its_skills(deploy: Deploy, tmp_path: Path) -> None:
    toolset = SkillToolset(skill_folder(tmp_path / "skills"))
    steps = [LOAD, file("references/form.md"), file("./scripts/../references/form.md", offset=6), file("assets/logo.png")]
    with deploy(clerk(toolset, *steps)) as rt:
        loaded, form, rest, logo = results(rt)
        assert loaded == {
            "skill_name": "meeting-minutes",
            "instructions": MINUTES_MD.partition("---\n\n")[2].strip(),
            "frontmatter": {
                "license": "Apache-2.0",
                "compatibility": "Needs Python 3.11 for scripts.",
                "allowed-tools": "Read Bash(python:*)",
            },
            "files": [
                "assets/logo.png",
                "references/example.py",
                "references/form.md",
                "scripts/count.py",
                "scripts/draw.js",
                "scripts/list.sh",
                "scripts/words.py",
            ],
        }
        assert form == {**NAME, "file_path": "references/form.md", "content": "# The form\n\nWho, what, when.\n"}
        assert (rest["content"], rest["total_chars"]) == ("form\n\nWho, what, when.\n", 29)
        assert logo == {
            **NAME,
            "file_path": "assets/logo.png",
            "artifact": "meeting-minutes/assets/logo.png",
            "mime_type": "image/png",
            "bytes": 10,
        }
        assert saved_blob(rt, "meeting-minutes/assets/logo.png") == Blob(data=LOGO, mime_type="image/png")


def test_its_model_is_told_which_skills_there_are(local: Deploy, tmp_path: Path) -> None:
    folder = skill_folder(skill_folder(tmp_path / "skills"), "rhymes", skill_md("rhymes", "Rhymes <b> & more."))
    with local(clerk(SkillToolset(folder)), settings=RECORDED) as rt:
        run_turn(rt, "go")
        (request,) = asked(rt)
        told = request.system_instruction
        assert "<name>meeting-minutes</name>\n<description>Writes minutes of meetings: who" in told
        assert "<name>rhymes</name>\n<description>Rhymes &lt;b&gt; &amp; more.</description>" in told
        assert "Count the words" not in told
        assert "not run" in told
        assert [tool.name for tool in request.tools] == ["load_skill", "load_skill_resource"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            file("../rhymes/SKILL.md"),
            "'../rhymes/SKILL.md' leads out of the folder of skill 'meeting-minutes': name a file in it.",
        ),
        (file("references/../../x"), "leads out of the folder"),
        (file("/etc/passwd"), "leads out of the folder"),
        (file("..\\x"), "leads out of the folder"),
        (file("C:\\x"), "leads out of the folder"),
        (file("references/from.md"), "has no file 'references/from.md'. Did you mean 'references/form.md'? There are: assets"),
        (file("references"), "has no file 'references'"),
        (file("references/form.md", offset=30), "offset has to be a number from 0 to 29"),
        ({"call": "load_skill", "args": {"skill_name": "minutes"}}, "there is no skill 'minutes'."),
        ({"call": "load_skill", "args": {}}, "load_skill needs the argument skill_name, a text"),
        (script("scripts/count.py"), "run_skill_script runs nothing: its SkillToolset was not given scripts=python_tool()"),
    ],
)
def test_what_cannot_be_is_told_to_the_model(local: Deploy, tmp_path: Path, call: dict[str, Any], error: str) -> None:
    with local(clerk(SkillToolset(skill_folder(tmp_path / "skills")), call)) as rt:
        (told,) = results(rt)
        assert error in told["error"]


def test_scripts_run_where_a_tool_runs_them(deploy: Deploy, tmp_path: Path) -> None:
    toolset = SkillToolset(skill_folder(tmp_path / "skills"), scripts=python_tool())
    steps = [
        script("scripts/count.py", "notes.txt", files=["notes.txt"]),
        script("list.sh", "all"),
        script("scripts/count.py", "notes.txt", 3, files=["notes.txt"]),
        script("scripts/draw.js"),
        script("references/example.py"),
        script("../count.py"),
    ]
    with deploy(clerk(toolset, {"parts": steps})) as rt:
        rt.sessions.create("ada", "s1")
        rt.artifacts.save("ada", "s1", "notes.txt", Part(text="ada and bo met"))
        counted, listed, failed, drawn, example, outside = results(rt)
        assert counted == {
            **NAME,
            "file_path": "scripts/count.py",
            "stdout": "# The form ['notes.txt']\n",
            "files": ["counted.txt"],
        }
        assert saved_blob(rt, "counted.txt").data == b"4"
        assert listed == {**NAME, "file_path": "scripts/list.sh", "stdout": "all: example.py\nform.md\n", "stderr": "4\n"}
        assert failed["error"] == "the run ended with exit code 3"
        only = "only files in scripts/ that end in .py, .sh, .bash are"
        assert drawn["error"] == f"ValueError: 'scripts/draw.js' is not run: {only}"
        assert example["error"] == f"ValueError: 'references/example.py' is not run: {only}"
        assert "has no file 'scripts/../count.py'" in outside["error"] or "leads out" in outside["error"]


def test_files_of_a_skill_may_be_larger_than_those_that_a_script_writes(local: Deploy, tmp_path: Path) -> None:
    toolset = SkillToolset(skill_folder(tmp_path / "skills"), scripts=python_tool(max_file_bytes=20))
    with local(clerk(toolset, script("scripts/count.py", "references/form.md"))) as rt:
        (counted,) = results(rt)
        assert counted["files"] == ["counted.txt"]
        assert "files_not_kept" not in counted


def test_scripts_wait_for_the_consent_that_their_tool_wants(local: Deploy, tmp_path: Path) -> None:
    scripts = python_tool(require_confirmation=True)
    with local(clerk(SkillToolset(skill_folder(tmp_path / "skills"), scripts=scripts), LOAD, script("list.sh", "all"))) as rt:
        run_turn(rt, "go")
        (call,) = rt.pending(user_id="ada")
        assert call.name == "run_skill_script"
        (ran,) = [response for event in rt.answer(call, confirmed=True) for response in event.function_responses()]
        assert ran.response["stdout"] == "all: example.py\nform.md\n"


def test_skills_are_updated_with_the_tree(deploy: Deploy, tmp_path: Path) -> None:
    def made(instructions: str, extra: str = "1") -> LlmAgent:
        folder = skill_folder(tmp_path / "skills", "rhymes", {**skill_md("rhymes", instructions=instructions), "x.md": extra})
        rhymes = {"skill_name": "rhymes"}
        steps = [{"call": "load_skill", "args": rhymes}, {"call": "load_skill_resource", "args": {**rhymes, "file_path": "x.md"}}]
        return LlmAgent(name="clerk", model=ScriptedModel([*steps, "done"]), tools=[SkillToolset(folder)])

    with deploy(made("Old."), settings=RECORDED) as rt:
        assert results(rt)[0]["instructions"] == "Old."
        assert not rt.update(made("Old.")).difference
        assert rt.update(made("Old.", extra="2")).difference.changed == ["clerk"]
        assert not any("has changed" in each.system_instruction for each in asked(rt))
        assert rt.update(made("New.")).difference.changed == ["clerk"]
        run_turn(rt, "again")
        first, *rest = [each.system_instruction for each in asked(rt)]
        assert "Skill 'rhymes' has changed since you have loaded it: load it again" in first
        # It has loaded it.
        assert len(rest) == 2
        assert not any("has changed" in each for each in rest)


def test_two_toolsets_have_names_of_their_own(local: Deploy, tmp_path: Path) -> None:
    first = SkillToolset(skill_folder(tmp_path / "one"))
    second = SkillToolset(skill_folder(tmp_path / "two", "rhymes", skill_md("rhymes")) / "rhymes", prefix="my_")
    call = {"call": "my_load_skill", "args": {"skill_name": "rhymes"}}
    with local(LlmAgent(name="clerk", model=ScriptedModel([call, "done"]), tools=[first, second]), settings=RECORDED) as rt:
        assert results(rt) == [{"skill_name": "rhymes", "instructions": "Do it."}]
        assert re.findall(r"instructions with `(\w+)`", asked(rt)[-1].system_instruction) == ["load_skill", "my_load_skill"]
