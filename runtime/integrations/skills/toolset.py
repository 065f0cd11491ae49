"""The toolset of skills, and the tools by which models read skills and run their scripts."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Protocol

from actors.definitions.tools.base import Tool, Toolset
from actors.definitions.tools.context import CallbackContext, ReadonlyContext, ToolContext
from actors.definitions.tools.function import without_unknown
from actors.errors import DefinitionError
from actors.errors.hints import explains_wrong_calls
from actors.messages.content import Blob, Content, Part
from actors.messages.json_types import JsonObject
from actors.messages.llm import FunctionDeclaration, LlmRequest
from runtime.integrations.skills.folders import Skill, path_in, read_skills, skill_of, text_of

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


SCRIPTS = "scripts/"

_PYTHON = """\
import runpy, sys
sys.argv = {argv!r}
sys.path.insert(0, {folder!r})
_ = runpy.run_path({path!r}, run_name="__main__")
"""
_SHELL = """\
import os
os.execvp("bash", {argv!r})
"""
_PROGRAMS = {".py": _PYTHON, ".sh": _SHELL, ".bash": _SHELL}


class ScriptRunner(Protocol):
    """What runs code in a process of its own: see PythonTool."""

    @property
    def require_confirmation(self) -> bool:
        """The user has to agree before each run."""
        ...

    async def run_code(self, code: str, files: Mapping[str, bytes], artifacts: object, context: ToolContext) -> JsonObject:
        """Run Python code in a folder with these files and artifacts, and return what became of it."""
        ...


class RunSkillScriptTool(Tool):
    """`run_skill_script`: a script of a skill, run in a folder with all files of the skill.

    Args:
        runner: runs the code; None: no script is run, and the model is not shown the tool.
        prefix: begins the names of the toolset's tools.
    """

    description = (
        "Run a script from the scripts/ folder of a skill. It runs in a new folder with the skill's files and the artifacts that "
        "you name; files that it writes are kept as artifacts."
    )

    def __init__(self, skills: Mapping[str, Skill], runner: ScriptRunner | None, prefix: str) -> None:
        self.name = f"{prefix}run_skill_script"
        self.require_confirmation = runner is not None and runner.require_confirmation
        self._skills = skills
        self._runner = runner

    def declaration(self) -> FunctionDeclaration | None:
        """The name of the skill, the path of a script, its arguments, and names of artifacts."""
        if self._runner is None:
            return None
        texts = {"type": "array", "items": {"type": "string"}}
        properties: dict[str, Any] = {
            "skill_name": SKILL_NAME,
            "file_path": {"type": "string", "description": "The path of the script, such as scripts/count.py."},
            "args": {**texts, "description": "Its arguments, as on a command line."},
            "files": {**texts, "description": "Names of artifacts to have in the folder."},
        }
        parameters = {"type": "object", "properties": properties, "required": ["skill_name", "file_path"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Run the script; its files become artifacts.

        Raises:
            ValueError: an argument is wrong, there is no such script, or it is of a kind that is not run.
            RuntimeError: no scripts are run, or the process that ran this one was killed.
        """
        if self._runner is None:
            raise RuntimeError(f"{self.name} runs nothing: its SkillToolset was not given scripts=python_tool()")
        args = without_unknown(args, ("skill_name", "file_path", "args", "files"), self.name, context.agent_name)
        skill = skill_of(self._skills, text_of(args, "skill_name", self.name))
        given = text_of(args, "file_path", self.name)
        path = path_in(skill, given if given.startswith(SCRIPTS) or given in skill.files else SCRIPTS + given)
        code = _code(path, _arguments(args.get("args")))
        told = await self._runner.run_code(code, skill.files, args.get("files") or [], context)
        return {"skill_name": skill.name, "file_path": path, **told}


def _code(path: str, arguments: Sequence[str]) -> str:
    """Python code that runs a script. Raises ValueError for one that cannot be run."""
    folder, _, file = path.rpartition("/")
    ending = file[file.rfind(".") :].lower() if "." in file else ""
    if not path.startswith(SCRIPTS) or ending not in _PROGRAMS:
        raise ValueError(f"{path!r} is not run: only files in {SCRIPTS} that end in {', '.join(_PROGRAMS)} are")
    argv = [path, *arguments] if ending == ".py" else ["bash", path, *arguments]
    return _PROGRAMS[ending].format(argv=argv, path=path, folder=folder)


def _arguments(given: object) -> list[str]:
    """Arguments of a command line. An object has options, such as {"month": 3} for --month 3."""
    if given is None:
        return []
    if isinstance(given, dict):
        return [text for name, value in given.items() for text in (f"--{name}", str(value))]
    if isinstance(given, list) and all(isinstance(each, str | int | float) for each in given):
        return [str(each) for each in given]
    raise ValueError("args has to be a list of texts, such as ['--month', '3']")


MAX_PREFIX = 32


class SkillToolset(Toolset):
    """Stands in an agent's `tools` for skills: folders with a SKILL.md, in the format of agentskills.io.

    The model sees the names and descriptions of all skills in its instruction. It reads the instructions of one by `load_skill`,
    and its files by `load_skill_resource`. The folders are read when the toolset is made, and what they have travels with the
    definition: no agent reads them from a disk.

    Args:
        skills: the path of a folder of skills, or of one skill, or a list of such paths.
        scripts: runs scripts of skills for `run_skill_script`: a `python_tool(…)`, whose limits and confirmation are theirs; by
            default no script is run.
        prefix: begins the names of the tools, for an agent with several such toolsets; default none.
        max_resource_chars: of a file that a model gets at once; default 100,000.

    Raises:
        DefinitionError: a skill or an option is wrong.
    """

    @explains_wrong_calls
    def __init__(
        self,
        skills: str | Path | Sequence[str | Path],
        *,
        scripts: ScriptRunner | None = None,
        prefix: str = "",
        max_resource_chars: int = 100_000,
    ) -> None:
        paths = [skills] if isinstance(skills, str | Path) else skills
        if not isinstance(paths, Sequence) or not paths or not all(isinstance(path, str | Path) for path in paths):
            raise DefinitionError(f"SkillToolset takes the path of a folder of skills, or a list of paths, not {skills!r:.100}")
        if scripts is not None and not callable(getattr(scripts, "run_code", None)):
            raise DefinitionError(f"SkillToolset: scripts takes what python_tool(…) makes, or None, not {scripts!r:.100}")
        if prefix and not (prefix.isidentifier() and prefix.isascii() and len(prefix) <= MAX_PREFIX):
            raise DefinitionError(f"SkillToolset: prefix {prefix!r}: use up to {MAX_PREFIX} letters, digits and underscores")
        if isinstance(max_resource_chars, bool) or not isinstance(max_resource_chars, int) or max_resource_chars < 1:
            raise DefinitionError(f"SkillToolset: max_resource_chars is a whole number from 1 on, not {max_resource_chars!r}")
        self.prefix = prefix
        self.max_resource_chars = max_resource_chars
        self._skills = read_skills(paths)
        self._scripts = scripts

    def __repr__(self) -> str:
        return f"SkillToolset({', '.join(self._skills)})"

    @property
    def skills(self) -> Sequence[Skill]:
        """The skills, in the order in which they were found."""
        return tuple(self._skills.values())

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tools by which the model reads skills, and runs their scripts."""
        return [
            LoadSkillTool(self._skills, self.prefix, runs_scripts=self._scripts is not None),
            LoadSkillResourceTool(self._skills, self.prefix, self.max_resource_chars),
            RunSkillScriptTool(self._skills, self._scripts, self.prefix),
        ]
