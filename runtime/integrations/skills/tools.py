"""The tools by which models read skills."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.definitions.tools.function import without_unknown
from actors.messages.content import Blob, Content, Part
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import FunctionDeclaration, LlmRequest
from runtime.integrations.skills.folders import Skill, path_in, skill_of, text_of

SKILL_NAME = {"type": "string", "description": "The name of the skill."}

_INTRODUCTION = """\
You have skills: instructions and files for special tasks. Before you work on what the description of a skill fits, read its \
instructions with {load}, and follow them step by step in the same turn: to load a skill does nothing else. {resource} shows \
files that they name; other tools do not find them. {scripts}"""
_SCRIPTS = "{run} runs scripts of a skill."
_NO_SCRIPTS = "Scripts of skills can be read here, but not run."


class LoadSkillTool(Tool):
    """`load_skill`: the instructions of a skill. It also tells the model which skills there are.

    Args:
        prefix: begins the names of the toolset's tools.
        runs_scripts: the agent may run scripts.
    """

    description = "Read the instructions of a skill, and which files it has."

    def __init__(self, skills: Mapping[str, Skill], prefix: str, *, runs_scripts: bool) -> None:
        self.name = f"{prefix}load_skill"
        self._skills = skills
        names = {each: f"`{prefix}{each}`" for each in ("load_skill", "load_skill_resource", "run_skill_script")}
        scripts = _SCRIPTS.format(run=names["run_skill_script"]) if runs_scripts else _NO_SCRIPTS
        introduction = _INTRODUCTION.format(load=names["load_skill"], resource=names["load_skill_resource"], scripts=scripts)
        self._instruction = f"{introduction}\n\n{_catalogue(skills.values())}"

    def declaration(self) -> FunctionDeclaration:
        """One required text, `skill_name`."""
        parameters = {"type": "object", "properties": {"skill_name": SKILL_NAME}, "required": ["skill_name"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Say which skills there are, and which of those that the model has read are others by now."""
        # Read by the list's own method: each content that is looked at otherwise becomes a copy that may be changed.
        contents = (content for content in list.__iter__(request.contents) if isinstance(content, Content))
        changed = [
            f"Skill {name!r} has changed since you have loaded it: load it again before you go on."
            if name in self._skills
            else f"Skill {name!r} is no longer there: do not follow its instructions."
            for name in self._changed(contents)
        ]
        request.append_instructions([self._instruction, *changed])

    def _changed(self, contents: Iterable[Content]) -> Iterator[str]:
        """The skills whose instructions in the conversation are not those of now."""
        read: dict[str, object] = {}
        for part in (part for content in contents for part in content.parts):
            response = part.function_response
            if response is not None and response.name == self.name and "instructions" in response.response:
                read[str(response.response.get("skill_name"))] = response.response["instructions"]
        for name, instructions in read.items():
            skill = self._skills.get(name)
            if skill is None or skill.instructions != instructions:
                yield name

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Return the instructions. Raises ValueError if there is no such skill."""
        args = without_unknown(args, ("skill_name",), self.name, context.agent_name)
        skill = skill_of(self._skills, text_of(args, "skill_name", self.name))
        told: JsonObject = {"skill_name": skill.name, "instructions": skill.instructions}
        if skill.fields:
            told["frontmatter"] = dict(skill.fields)
        if skill.resources:
            told["files"] = skill.resources
        return told


class LoadSkillResourceTool(Tool):
    """`load_skill_resource`: a file of a skill. One that is no text becomes an artifact.

    Args:
        prefix: begins the names of the toolset's tools.
        most: characters of a file that a model gets at once.
    """

    description = "Read a file of a skill, such as references/form.md."

    def __init__(self, skills: Mapping[str, Skill], prefix: str, most: int) -> None:
        self.name = f"{prefix}load_skill_resource"
        self._skills = skills
        self._most = most

    def declaration(self) -> FunctionDeclaration:
        """The name of the skill, the path of a file, and where in a long one to begin."""
        path = {"type": "string", "description": "The path of the file in the folder of the skill."}
        offset = {"type": "integer", "description": "Characters to leave out at its beginning; default 0."}
        parameters: dict[str, Any] = {
            "type": "object",
            "properties": {"skill_name": SKILL_NAME, "file_path": path, "offset": offset},
            "required": ["skill_name", "file_path"],
        }
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Return the text of the file, or the name of the artifact that has it.

        Raises:
            ValueError: there is no such skill or file, or the path leads out of its folder.
        """
        args = without_unknown(args, ("skill_name", "file_path", "offset"), self.name, context.agent_name)
        skill = skill_of(self._skills, text_of(args, "skill_name", self.name))
        path = path_in(skill, text_of(args, "file_path", self.name))
        data = skill.files[path]
        told: JsonObject = {"skill_name": skill.name, "file_path": path}
        text = _text(data)
        if text is None:
            mime_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
            name = f"{skill.name}/{path}"
            await context.save_artifact(name, Part(inline_data=Blob(data=data, mime_type=mime_type)))
            return {**told, "artifact": name, "mime_type": mime_type, "bytes": len(data)}
        offset = args.get("offset") or 0
        if isinstance(offset, bool) or not isinstance(offset, int | float) or not 0 <= offset <= len(text):
            raise ValueError(f"offset has to be a number from 0 to {len(text)}, the length of the file, not {offset!r:.100}")
        part = text[int(offset) : int(offset) + self._most]
        told["content"] = part
        if len(part) < len(text):
            told |= {"offset": int(offset), "total_chars": len(text)}
        return told


def _catalogue(skills: Iterable[Skill]) -> str:
    """The names and descriptions of skills."""
    lines = ["<available_skills>"]
    for skill in skills:
        lines += ["<skill>", f"<name>{skill.name}</name>"]
        lines += [f"<description>{escape(skill.description, quote=False)}</description>", "</skill>"]
    return "\n".join([*lines, "</available_skills>"])


def _text(data: bytes) -> str | None:
    """The data as a text; None if it is none."""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None
