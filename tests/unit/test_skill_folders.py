"""Folders of skills: what is read of them, and what is wrong with those that are refused."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import DefinitionError
from runtime import SkillToolset
from runtime.integrations.skills import folders
from runtime.integrations.skills.folders import Skill, path_in, read_skills
from tests.support.programs.skill_folders import MINUTES, skill_folder, skill_md


def head(*fields: str) -> str:
    return "\n".join(["---", *fields, "---", "Do it."])


OF_RHYMES = "description: Rhymes."

WRONG = [
    ("", "has to begin with a line of ---, the fields name and description, and ---"),
    ("# Rhymes", "has to begin with a line of ---"),
    ("---\nname: rhymes\n", "a second line of --- has to end the fields"),
    (head("just a text"), "stand fields, such as name: "),
    (
        head("name: rhymes", "description: Use it: often"),
        "SKILL.md, line 3: the fields are no YAML: mapping values are not allowed",
    ),
    (head("name: rhymes", "description: [a"), "A text with a colon or a # in it stands in quotes"),
    (head("name: rhymes"), "description is missing: say what the skill does, and when to use it"),
    (head(OF_RHYMES), "name is missing: it is that of the folder, rhymes"),
    (
        head("name: Rhymes_1", OF_RHYMES),
        "the name 'Rhymes_1' has to be of a to z, 0 to 9 and single hyphens between them, at most 64",
    ),
    (head("name: Rhymes_1", OF_RHYMES), "such as 'rhymes-1'"),
    (head("name: -rhymes", OF_RHYMES), "such as 'rhymes'"),
    (head("name: rhy--mes", OF_RHYMES), "such as 'rhy-mes'"),
    (head(f"name: {'a' * 65}", OF_RHYMES), "at most 64"),
    (head("name: [a]", OF_RHYMES), "the name \"['a']\" has to be"),
    (head("name: poems", OF_RHYMES), "the name 'poems' has to be that of the folder, which is called 'rhymes'"),
    (head("name: rhymes", f"description: {'a' * 1_025}"), "description has to be a text of 1 to 1,024 characters, not of 1,025"),
    (head("name: rhymes", "description: {a: b}"), "description has to be a text, not a dict"),
    (head("name: rhymes", OF_RHYMES, f"compatibility: {'a' * 501}"), "compatibility has to be a text of 1 to 500 characters"),
    (head("name: rhymes", OF_RHYMES, "allowed-tools: [Read]"), "allowed-tools has to be names with spaces between them"),
    (head("name: rhymes", OF_RHYMES, "metadata: [a]"), "metadata has to be fields of its own, such as author: ada"),
    (head("name: rhymes", "descripton: Rhymes."), "there is no field 'descripton'. Did you mean 'description'?"),
    (head("nam: rhymes", OF_RHYMES), "there is no field 'nam'. Did you mean 'name'?; name is missing"),
    (head("name: rhymes", OF_RHYMES, "licence: MIT"), "there is no field 'licence'. Did you mean 'license'?"),
]


@pytest.mark.parametrize(("text", "error"), WRONG)
def test_a_wrong_skill_md_is_refused_with_what_would_be_right(tmp_path: Path, text: str, error: str) -> None:
    skill_folder(tmp_path, "rhymes", {"SKILL.md": text})
    with pytest.raises(DefinitionError) as refused:
        read_skills([tmp_path])
    assert error in str(refused.value)
    assert str(tmp_path / "rhymes" / "SKILL.md") in str(refused.value)


RIGHT = [
    head("name: rhymes", OF_RHYMES),
    "\ufeff" + head("name: rhymes", OF_RHYMES),
    head("name: rhymes", OF_RHYMES).replace("\n", "\r\n"),
    head("name: rhymes", OF_RHYMES, "version: 1.0", "model: big", "description_de: Reime.", "metadata:", "  since: 2026-01-01"),
    head("name: rhymes", "description: >", "  Rhymes.", "allowed_tools: Read", "user-invocable: false"),
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_programs_publish_is_read(tmp_path: Path, text: str) -> None:
    skill_folder(tmp_path, "rhymes", {"SKILL.md": text})
    (skill,) = read_skills([tmp_path]).values()
    assert (skill.name, skill.description, skill.instructions) == ("rhymes", "Rhymes.", "Do it.")


def test_a_line_within_the_instructions_ends_nothing(tmp_path: Path) -> None:
    text = head("name: rhymes", "description: a --- b") + "\n---\nAnd go on."
    skill_folder(tmp_path, "rhymes", {"skill.md": text})
    (skill,) = read_skills([tmp_path]).values()
    assert (skill.description, skill.instructions) == ("a --- b", "Do it.\n---\nAnd go on.")


def test_a_path_is_a_skill_or_a_folder_of_skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skill_folder(skill_folder(tmp_path / "all"), "rhymes", skill_md("rhymes"))
    (tmp_path / "all" / "notes").mkdir()
    (tmp_path / "all" / ".git").mkdir()
    (tmp_path / "all" / "rhymes" / "__pycache__").mkdir()
    (tmp_path / "all" / "rhymes" / "__pycache__" / "x.pyc").write_bytes(b"1")
    (tmp_path / "all" / "rhymes" / ".DS_Store").write_bytes(b"1")
    assert list(read_skills([tmp_path / "all"])) == ["meeting-minutes", "rhymes"]
    (rhymes,) = SkillToolset(str(tmp_path / "all" / "rhymes")).skills
    assert rhymes.resources == []
    monkeypatch.chdir(tmp_path / "all" / "rhymes")
    assert list(read_skills(["."])) == ["rhymes"]


def test_folders_without_skills_are_refused(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    cases: list[tuple[Any, str]] = [
        (tmp_path / "skils", "skils is no folder. Did you mean 'skills'?"),
        (tmp_path / "skills", "has a SKILL.md"),
        ([], "SkillToolset takes the path of a folder of skills, or a list of paths, not []"),
        (3, "or a list of paths, not 3"),
    ]
    for path, error in cases:
        with pytest.raises(DefinitionError, match="SkillToolset") as refused:
            SkillToolset(path)
        assert error in str(refused.value)
    skill_folder(tmp_path / "skills", "rhymes", {"Skill.md": "x"})
    with pytest.raises(DefinitionError, match=r"rhymes/Skill.md has to be called SKILL.md"):
        read_skills([tmp_path / "skills"])


def test_two_skills_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [skill_folder(tmp_path / name, "rhymes", skill_md("rhymes")) for name in ("one", "two")]
    with pytest.raises(DefinitionError, match=r"two skills are called 'rhymes', the second one is in .*/two/rhymes"):
        read_skills(paths)


def test_links_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path / "skills") / "meeting-minutes"
    (tmp_path / "secret.txt").write_text("key")
    (folder / "references" / "same.md").symlink_to(folder / "references" / "form.md")
    (skill,) = read_skills([folder]).values()
    assert skill.files["references/same.md"] == skill.files["references/form.md"]
    for target, error in (
        (tmp_path / "secret.txt", "leads out of the skill's folder"),
        (tmp_path, "leads out of the skill's folder"),
        (Path("..") / ".." / ".." / "secret.txt", "leads out of the skill's folder"),
        (folder, "is a link to what is no file of the skill"),
        (folder / "gone", "is a link to what is no file of the skill"),
    ):
        link = folder / "references" / "link"
        link.symlink_to(target)
        with pytest.raises(DefinitionError, match=error):
            read_skills([folder])
        link.unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(DefinitionError, match="pipe is no file"):
        read_skills([folder])


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = skill_folder(tmp_path)
    for name, most in (("MAX_FILES", len(MINUTES)), ("MAX_BYTES", 5_000)):
        with monkeypatch.context() as patch:
            patch.setattr(folders, name, most)
            assert len(read_skills([folder])) == 1
            patch.setattr(folders, name, 5)
            with pytest.raises(DefinitionError, match="the skills of a toolset have more than"):
                read_skills([folder])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scripts": True}, "scripts takes what python_tool"),
        ({"prefix": "a b"}, "use up to 32 letters"),
        ({"max_resource_chars": 0}, "a whole number from 1 on"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], error: str) -> None:
    with pytest.raises(DefinitionError, match=error):
        SkillToolset(skill_folder(tmp_path), **options)


PARTS = st.sampled_from(["..", ".", "a", "b.md", "references", "", "C:", "\\", "...", "..\\..", "a\0"])


@given(st.lists(PARTS, max_size=6).map("/".join))
def test_no_path_leads_out_of_the_folder(path: str) -> None:
    skill = Skill("x", "y", "z", {}, {"a": b"", "references/a": b"", "references/b.md": b""})
    root = "/root/of/the/skill"
    # As a system would follow it.
    place = posixpath.normpath(posixpath.join(root, path.replace("\\", "/")))
    found = place.removeprefix(f"{root}/") if place.startswith(f"{root}/") else ""
    if found in skill.files and not path.startswith("C:"):
        assert path_in(skill, path) == found
    else:
        is_inside = found or place == root
        with pytest.raises(
            ValueError, match="has no file" if is_inside and not path.startswith("C:") else "leads out of the folder"
        ):
            path_in(skill, path)
