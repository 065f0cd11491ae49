"""Skills and files as models name them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

from actors.errors.listing import some_of
from actors.errors.suggestions import did_you_mean
from actors.messages.json_types import JsonObject
from runtime.integrations.skills.folders import Skill

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
