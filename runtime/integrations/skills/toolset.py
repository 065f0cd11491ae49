"""The toolset of skills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ReadonlyContext
from actors.definitions.tools.toolset import Toolset
from actors.errors import DefinitionError
from actors.errors.calls import explains_wrong_calls
from runtime.integrations.skills.folders import Skill, read_skills
from runtime.integrations.skills.scripts import RunSkillScriptTool, ScriptRunner
from runtime.integrations.skills.tools import LoadSkillResourceTool, LoadSkillTool

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
