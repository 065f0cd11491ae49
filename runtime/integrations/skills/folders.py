"""Skills as they stand on disk, read as a whole when a program defines them; and their files as models name them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from actors.errors import DefinitionError
from actors.errors.hints import did_you_mean, some_of
from actors.messages.json_types import JsonObject
from actors.rules.checks.ids import is_readable

SKILL_MD = "SKILL.md"
MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_COMPATIBILITY = 500

KNOWN = ("name", "description", "license", "compatibility", "metadata", "allowed-tools", "allowed_tools")
"""Fields that have a meaning. Programs add others of their own, which are for them."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FENCE = "---"


def parsed(text: str, where: str, folder: str) -> tuple[dict[str, str], str]:
    """The fields of a SKILL.md that are texts, and the instructions below them.

    Args:
        where: names the file in errors.
        folder: the name of its folder, which is that of the skill.

    Raises:
        DefinitionError: a field is missing or wrong. It names all of them.
    """
    head, body = _split(text, where)
    found = _fields(head, where)
    if wrong := _wrong_fields(found, folder):
        raise DefinitionError(f"{where}: {'; '.join(wrong)}")
    fields = {name: value.strip() for name, value in found.items() if isinstance(value, str) and name in KNOWN}
    if spelled := fields.pop("allowed_tools", ""):
        fields["allowed-tools"] = spelled
    return fields, body


def _split(text: str, where: str) -> tuple[str, str]:
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        raise DefinitionError(f"{where} has to begin with a line of {_FENCE}, the fields name and description, and {_FENCE}")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]).strip()
    raise DefinitionError(f"{where}: a second line of {_FENCE} has to end the fields that it begins with")


def _fields(head: str, where: str) -> Mapping[object, object]:
    # Ray brings it.
    import yaml

    try:
        # All scalars as texts: a version of 1.0 is no number.
        found = yaml.load(head, yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 2}" if mark is not None else ""
        problem = getattr(error, "problem", None) or type(error).__name__
        raise DefinitionError(
            f"{where}{place}: the fields are no YAML: {problem}. A text with a colon or a # in it stands in quotes"
        ) from None
    if not isinstance(found, dict):
        raise DefinitionError(f"{where}: between the lines of {_FENCE} stand fields, such as name: {_proposed(where)}")
    return found


def _wrong_fields(found: Mapping[object, object], folder: str) -> list[str]:
    """Sentences on fields that are wrong, with what would be right."""
    wrong = [*_misspelt(found), *_wrong_name(found.get("name"), folder)]
    for name, most, is_needed in (
        ("description", MAX_DESCRIPTION, True),
        ("license", MAX_DESCRIPTION, False),
        ("compatibility", MAX_COMPATIBILITY, False),
        ("allowed-tools", MAX_DESCRIPTION, False),
        ("allowed_tools", MAX_DESCRIPTION, False),
    ):
        value = found.get(name)
        if value is None or value == "":
            if is_needed:
                wrong.append(f"{name} is missing: say what the skill does, and when to use it")
        elif not isinstance(value, str):
            instead = "names with spaces between them, such as Read Bash(git:*)" if name.startswith("allowed") else "a text"
            wrong.append(f"{name} has to be {instead}, not a {type(value).__name__}")
        elif not value.strip() or len(value) > most:
            wrong.append(f"{name} has to be a text of 1 to {most:,} characters, not of {len(value.strip()):,}")
    if not isinstance(found.get("metadata", {}), dict | str):
        wrong.append("metadata has to be fields of its own, such as author: ada")
    return wrong


def _misspelt(found: Mapping[object, object]) -> list[str]:
    """Fields that are near to one which is missing."""
    missing = [name for name in KNOWN if name not in found]
    others = [name for name in found if isinstance(name, str) and name not in KNOWN]
    nearest = ((name, get_close_matches(name.lower(), missing, n=1, cutoff=0.75)) for name in others)
    return [f"there is no field {name!r}. Did you mean {near[0]!r}?" for name, near in nearest if near]


def _wrong_name(name: object, folder: str) -> list[str]:
    if name is None or name == "":
        return [f"name is missing: it is that of the folder, {folder}"]
    if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        return [
            f"the name {str(name)[:80]!r} has to be of a to z, 0 to 9 and single hyphens between them, at most {MAX_NAME}, "
            f"such as {_proposed(str(name))!r}"
        ]
    if name != folder:
        return [f"the name {name!r} has to be that of the folder, which is called {folder!r}"]
    return []


def _proposed(name: str) -> str:
    """A name that would do."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:MAX_NAME].strip("-") or "my-skill"


MAX_FILES = 1_000
MAX_BYTES = 16 * 1024 * 1024
"""All files of a toolset: they travel with the definition to the processes of its agents."""

_SPELLINGS = (SKILL_MD, "skill.md")
_LEFT_OUT = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True)
class Skill:
    """A skill.

    Attributes:
        name: that of its folder.
        description: what it does, and when to use it.
        instructions: the text of SKILL.md without its fields.
        fields: license, compatibility and allowed-tools, where it has them.
        files: those of its folder, by their paths from there.
    """

    name: str
    description: str
    instructions: str
    fields: Mapping[str, str]
    files: Mapping[str, bytes]

    @property
    def resources(self) -> list[str]:
        """The paths of its files but SKILL.md, sorted."""
        return sorted(path for path in self.files if path not in _SPELLINGS)


def read_skills(paths: Sequence[str | Path]) -> dict[str, Skill]:
    """The skills in some folders, by name: each is that of a skill, or has folders of skills in it.

    Raises:
        DefinitionError: there is no such folder or no skill in it, a skill is wrong, two have one name, or they are too large.
    """
    skills: dict[str, Skill] = {}
    budget = _Budget()
    for path in paths:
        for folder in _folders(Path(path)):
            skill = _read(folder, budget)
            if skill.name in skills:
                raise DefinitionError(f"two skills are called {skill.name!r}, the second one is in {folder}")
            skills[skill.name] = skill
    return skills


def _folders(path: Path) -> list[Path]:
    """The folders of skills that a path names."""
    path = path.expanduser()
    # Without a name of its own, as ".", it has that of the folder that it leads to.
    path = path if path.name else path.resolve()
    if not path.is_dir():
        near = did_you_mean(path.name, [each.name for each in _entries(path.parent) if each.is_dir()])
        raise DefinitionError(f"SkillToolset: {path} is no folder.{near}")
    if _skill_md(path) is not None:
        return [path]
    found = [each for each in _entries(path) if each.is_dir() and _skill_md(each) is not None]
    if not found:
        raise DefinitionError(f"SkillToolset: neither {path} nor a folder in it has a {SKILL_MD}")
    return found


def _entries(folder: Path) -> list[Path]:
    """All that a folder has in it, sorted, but for what is hidden."""
    if not folder.is_dir():
        return []
    return sorted(each for each in folder.iterdir() if not each.name.startswith(".") and each.name not in _LEFT_OUT)


def _skill_md(folder: Path) -> Path | None:
    """The SKILL.md of a folder. Raises DefinitionError for a file that is meant to be one, and is called otherwise."""
    names = {each.name for each in _entries(folder)}
    for name in _SPELLINGS:
        if name in names:
            return folder / name
    meant = [name for name in names if name.lower() in ("skill.md", "skills.md", "skill.markdown", "skill.txt")]
    if meant:
        raise DefinitionError(f"{folder / meant[0]} has to be called {SKILL_MD}")
    return None


class _Budget:
    """How much has been read for a toolset."""

    def __init__(self) -> None:
        self._files = 0
        self._bytes = 0

    def add(self, folder: Path, size: int) -> None:
        """Count a file. Raises DefinitionError where it is one too many, or too large."""
        self._files += 1
        self._bytes += size
        if self._files > MAX_FILES or self._bytes > MAX_BYTES:
            raise DefinitionError(
                f"with {folder} the skills of a toolset have more than {MAX_FILES:,} files or {MAX_BYTES // 1024**2} MiB, and "
                "they travel to the processes of its agents: leave large files to a tool, or take fewer skills"
            )


def _read(folder: Path, budget: _Budget) -> Skill:
    try:
        files = {path: file.read_bytes() for path, file in _files(folder, folder.resolve(), PurePosixPath(), budget)}
    except OSError as error:
        raise DefinitionError(f"the skill in {folder} cannot be read: {error}") from error
    name = next(each for each in _SPELLINGS if each in files)
    where = str(folder / name)
    try:
        text = files[name].decode()
    except UnicodeDecodeError:
        raise DefinitionError(f"{where} has to be a text in UTF-8") from None
    fields, instructions = parsed(text, where, folder.name)
    facts = {key: fields[key] for key in ("license", "compatibility", "allowed-tools") if fields.get(key)}
    return Skill(fields["name"], fields["description"], instructions, facts, files)


def _files(folder: Path, root: Path, below: PurePosixPath, budget: _Budget) -> Iterator[tuple[str, Path]]:
    """The files of a folder and of those in it, by their paths from the root.

    Raises:
        DefinitionError: a link leads out of the root or to a folder, a name cannot be shown, or there are too many.
    """
    for each in _entries(folder):
        path = below / each.name
        if not is_readable(str(path)):
            raise DefinitionError(f"a file in {root} has a name that cannot be shown: {ascii(each.name)[:100]}")
        if each.is_symlink():
            target = each.resolve()
            if not target.is_relative_to(root):
                raise DefinitionError(f"{each} is a link that leads out of the skill's folder: put the file there itself")
            if not target.is_file():
                raise DefinitionError(f"{each} is a link to what is no file of the skill: put that there itself")
        if each.is_dir():
            yield from _files(each, root, path, budget)
        elif each.is_file():
            budget.add(root, each.stat().st_size)
            yield str(path), each
        else:
            raise DefinitionError(f"{each} is no file, and a skill has files only")


MAX_NAMED = 20
_DRIVE = re.compile(r"[A-Za-z]:")


def text_of(args: JsonObject, name: str, tool: str) -> str:
    """An argument that is a text. Raises ValueError without one."""
    value = args.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{tool} needs the argument {name}, a text")
    return value


def skill_of(skills: Mapping[str, Skill], name: str) -> Skill:
    """The skill of that name. Raises ValueError if there is none."""
    if name not in skills:
        raise ValueError(f"there is no skill {name!r:.100}.{did_you_mean(name, skills)} There are: {_listed(skills)}")
    return skills[name]


def path_in(skill: Skill, path: str) -> str:
    """The path of a file of a skill as its files have it.

    Raises:
        ValueError: it leads out of the skill's folder, or there is no such file.
    """
    plain = path.replace("\\", "/")
    normal = posixpath.normpath(plain)
    if plain.startswith("/") or _DRIVE.match(plain) or normal == ".." or normal.startswith("../"):
        raise ValueError(
            f"{path!r:.200} leads out of the folder of skill {skill.name!r}: name a file in it."
            f" There are: {_listed(skill.resources)}"
        )
    if normal not in skill.files:
        near = did_you_mean(normal, skill.resources)
        raise ValueError(f"skill {skill.name!r} has no file {path!r:.200}.{near} There are: {_listed(skill.resources)}")
    return normal


def _listed(names: Iterable[str]) -> str:
    return some_of(list(names), MAX_NAMED) or "none"
