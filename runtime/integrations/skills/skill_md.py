"""SKILL.md: what stands at its head, and whether it may."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from actors.errors import DefinitionError

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
