"""Toolsets of google-adk, such as those of MCP servers, OpenAPI descriptions and skills."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from google.adk.agents.context import Context
from google.adk.agents.readonly_context import ReadonlyContext as AdkReadonlyContext
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset

from actors.definitions.tools.base import CredentialRequest, Tool, Toolset
from actors.definitions.tools.context import CallbackContext, ReadonlyContext, ToolContext
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest
from runtime.integrations.adk import contexts
from runtime.integrations.adk.contexts import Source
from runtime.integrations.adk.requests import RequestView, own_declaration
from runtime.integrations.adk.services import credential_state, question_of
from runtime.integrations.adk.tools import AdkTool

logger = logging.getLogger(__name__)

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


TOOLSET_PREFIX = "_adk_toolset_auth_"
"""Begins the names by which ADK's clients know that a toolset asks."""


class AdkToolset(Toolset):
    """A BaseToolset as a toolset.

    One of ADK's own is asked once in a process, and again while its server is away. One that users wrote, that has skills, or
    that has a function as its filter, may have other tools for each session, so it is asked before each run.

    Args:
        convert: makes a tool of one of its tools.
    """

    per_run = True

    def __init__(self, source: Source, adk: BaseToolset, convert: Callable[[Source, BaseTool], Tool]) -> None:
        self.name = type(adk).__name__
        self._source = source
        self._adk = adk
        self._convert = convert
        self._has_skills = has_skills(adk)
        is_adks = type(adk).__module__.startswith("google.adk.") and not callable(adk.tool_filter)
        self._is_fixed = is_adks and not self._has_skills
        self._kept: Sequence[Tool] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What it remembers of its last answer belongs to this process.
        self._adk._cached_invocation_id = self._adk._cached_prefixed_tools = None
        return {**vars(self), "_kept": None}

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool] | CredentialRequest:
        """Ask ADK's toolset, or the user for its credential. If it fails, the agent does without its tools in this run."""
        if self._kept is not None:
            return self._kept
        theirs = contexts.invocation_context(self._source.agent, context, self._source.app_name)
        asked, is_users = await self._authenticate(theirs, context)
        if asked is not None:
            return asked
        try:
            given = await self._adk.get_tools_with_prefix(AdkReadonlyContext(theirs))
        except Exception:
            logger.exception("toolset %s of agent %r gives no tools", self.name, context.agent_name)
            return ()
        tools = [self._convert(self._source, tool) for tool in given]
        if self._has_skills:
            tools += await tools_of_skills(self._source, self._adk, theirs, given)
        for tool in tools:
            if theirs.credential_by_key:
                tool.credentials = theirs.credential_by_key  # type: ignore[attr-defined]
        if type(self._adk).process_llm_request is not BaseToolset.process_llm_request:
            tools.insert(0, _ToolsetRequest(self._source, self._adk))
        if self._is_fixed and not is_users:
            self._kept = tools
        return tools

    async def _authenticate(self, theirs: Any, context: ReadonlyContext) -> tuple[CredentialRequest | None, bool]:
        """Give ADK's context the credential. Returns what the user is to be asked, and whether the credential is the user's."""
        config = self._adk.get_auth_config()
        if not config:
            return None, False
        # It brings fastapi and clients of OAuth: a quarter of what the adapter takes to import.
        from google.adk.auth.auth_handler import AuthHandler
        from google.adk.auth.credential_manager import CredentialManager

        asked: CredentialRequest | None = None
        is_users = False
        try:
            credential = await CredentialManager(config.model_copy(deep=True)).get_auth_credential(Context(theirs))
            if credential is None:
                is_users = True
                # A copy, of which ADK keeps nothing.
                wanted = AuthHandler(config.model_copy(deep=True)).generate_auth_request()
                asked = CredentialRequest(f"{TOOLSET_PREFIX}{self.name}", question_of(wanted, f"toolset {self.name}"))
                answer = await self.credential_answer(context, asked.toolset)
                if answer is not None:
                    theirs.session.state.update(await credential_state(asked.question, answer, asked.toolset))
                    credential = await CredentialManager(config.model_copy(deep=True)).get_auth_credential(Context(theirs))
        except ValueError as error:
            logger.warning("toolset %s of agent %r has no credential: %s", self.name, theirs.agent.name, error)
            return None, is_users
        if credential is None:
            return asked, True
        theirs.credential_by_key[config.credential_key] = credential
        return None, is_users

    async def aclose(self) -> None:
        """Close ADK's toolset."""
        self._kept = None
        await self._adk.close()


class _ToolsetRequest(Tool):
    """Lets a toolset change requests; a model never sees it."""

    has_any_name = True

    def __init__(self, source: Source, adk: BaseToolset) -> None:
        self.name = f"{type(adk).__name__}.process_llm_request"
        self._source = source
        self._adk = adk

    def declaration(self) -> None:
        """None: it cannot be called."""

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Have ADK's toolset change the request."""
        view = RequestView(request, schema=self._source.output_schema)
        theirs = contexts.tool_context(self._source.agent, context, self._source.app_name)
        await self._adk.process_llm_request(tool_context=theirs, llm_request=view.adk)
        await view.fold_instructions()
        view.carry_back()
        contexts.carry_back(theirs, context)

    async def run(self, args: JsonObject, context: ToolContext) -> Any:
        """Never called."""
        raise NotImplementedError
