"""The tools of skills: a SkillToolset of google-adk declares them while their skill is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from google.adk.agents.readonly_context import ReadonlyContext as AdkReadonlyContext
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset

from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import LlmRequest
from runtime.integrations.adk import contexts
from runtime.integrations.adk.contexts import Source
from runtime.integrations.adk.requests import own_declaration
from runtime.integrations.adk.tools import AdkTool

_ACTIVE = "_adk_activated_skill_"
"""Begins the key of the state under which a SkillToolset notes the skills that an agent has loaded; google-adk's."""


_EVERY = "all-tools-of-a-registry"
"""Names a skill that no model sees."""


def has_skills(toolset: BaseToolset) -> bool:
    """True for a SkillToolset, which need not be imported for that."""
    return any(each.__name__ == "SkillToolset" and each.__module__.startswith("google.adk.") for each in type(toolset).__mro__)


async def tools_of_skills(source: Source, toolset: Any, theirs: Any, known: Sequence[BaseTool]) -> Sequence[SkillTool]:
    """The tools that loading a skill of the toolset, or of its registry, would bring, but for those that are known already.

    Args:
        theirs: an invocation context of ADK, whose state becomes that in which all skills are loaded.
        known: the tools that it gives without that.
    """
    asked = toolset
    skills = [skill.name for skill in toolset.skills]
    context = AdkReadonlyContext(theirs)
    if getattr(toolset, "_registry", None) is not None:
        # A registry does not list its skills: any tool for skills may be one of theirs.
        every = await _skill_with_all_tools(toolset, context)
        toolset = toolset.clone_with_updated_skills([*toolset.skills, every])
        skills.append(every.name)
    theirs.session.state[f"{_ACTIVE}{theirs.agent.name}"] = skills
    names = {tool.name for tool in known}
    given = await toolset.get_tools_with_prefix(context)
    return [SkillTool(source, tool, asked) for tool in given if tool.name not in names]


async def _skill_with_all_tools(toolset: Any, context: AdkReadonlyContext) -> Any:
    """A skill that asks for each tool that a toolset has for skills."""
    # A program with a SkillToolset has imported it; others need not.
    from google.adk.skills.models import Frontmatter, Skill

    names = list(toolset._provided_tools_by_name)
    for each in toolset._provided_toolsets:
        # One that fails is left out, as it is by the toolset.
        with suppress(Exception):
            names += [tool.name for tool in await each.get_tools_with_prefix(context)]
    metadata = {"adk_additional_tools": names}
    return Skill(frontmatter=Frontmatter(name=_EVERY, description="All.", metadata=metadata), instructions="")


class SkillTool(AdkTool):
    """A tool that is there while a skill is loaded that asks for it.

    Args:
        source, adk: see AdkTool.
        toolset: knows which skills are loaded.
    """

    def __init__(self, source: Source, adk: BaseTool, toolset: Any) -> None:
        super().__init__(source, adk)
        self._toolset = toolset

    def declaration(self) -> None:
        """None: requests declare the tool one by one."""

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Declare the tool where its skill is loaded."""
        if not await self._is_there(context):
            return
        declared = self.adk._get_declaration()
        if declared is not None and all(tool.name != self.name for tool in request.tools):
            request.tools = [*request.tools, own_declaration(declared)]
        await super().process_request(request, context)

    def _is_declared(self) -> bool:
        return True

    async def run(self, args: JsonObject, context: ToolContext) -> Any:
        """Run ADK's tool. Raises ValueError while no skill that asks for it is loaded."""
        if not await self._is_there(context):
            raise ValueError(f"tool {self.name!r} is part of a skill: load that first")
        return await super().run(args, context)

    async def _is_there(self, context: CallbackContext) -> bool:
        theirs = contexts.tool_context(self._source.agent, context, self._source.app_name)
        self._toolset._cached_invocation_id = None
        return any(tool.name == self.name for tool in await self._toolset.get_tools_with_prefix(theirs))
