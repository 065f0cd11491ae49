"""The toolsets of a process: each is asked once for all agents that have it, and closed when the last of them leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from actors.agent.environment import Toolsets
from actors.behaviours.lifecycle import facts_for_user_code
from actors.definitions.agents.asking_tool import AskingTool
from actors.definitions.agents.llm import as_tool, check_tools
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ReadonlyContext
from actors.definitions.tools.toolset import CredentialRequest, Toolset
from actors.definitions.tree.spec import AgentSpec
from actors.errors import DefinitionError
from actors.interfaces.context import Context
from actors.layers.toolsets.credentials import ask_for_credentials, forget_requests
from actors.layers.toolsets.find_tools import FindToolsTool
from actors.messages.protocol.outcomes import Paused

logger = logging.getLogger(__name__)


class _Open:
    """A toolset that is in use.

    Attributes:
        users: the actors whose agents have it.
        tools: what it has answered; None before.
        lock: held while it is asked.
    """

    def __init__(self, toolset: Toolset) -> None:
        self.toolset = toolset
        self.users: set[object] = set()
        self.tools: Sequence[Tool] | None = None
        self.lock = asyncio.Lock()


class OpenToolsets(Toolsets):
    """The toolsets that agents of one process use."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}

    async def resolved(self, spec: AgentSpec, context: Context, user: object, *, can_wait: bool) -> AgentSpec | Paused:
        """The spec with tools in place of its toolsets: see `Toolsets`."""
        agent = spec.llm_agent
        if not spec.has_toolsets:
            return spec
        facts = ReadonlyContext(**facts_for_user_code(context))
        tools: list[Tool] = []
        searched: dict[str, Sequence[Tool]] = {}
        asked: list[CredentialRequest] = []
        for tool in agent.tools:
            given = await self._tools(tool, agent.name, facts, user) if isinstance(tool, Toolset) else [tool]
            if isinstance(given, CredentialRequest):
                asked.append(given)
                continue
            tools += given
            if isinstance(tool, Toolset) and tool.searchable:
                searched[tool.name] = [*searched.get(tool.name, ()), *given]
        if asked:
            return await ask_for_credentials(asked, context, can_wait=can_wait)
        # They are no part of what the agent has done: it begins when its tools are known.
        forget_requests(context)
        tools += _search(searched, spec.limits.max_listed_tools)
        try:
            check_tools(tools)
        except ValueError as error:
            raise DefinitionError(f"the toolsets of agent {agent.name!r}: {error}") from error
        return replace(spec, definition=agent.model_copy(update={"tools": tuple(tools)}))

    async def _tools(
        self, toolset: Toolset, agent: str, facts: ReadonlyContext, user: object
    ) -> Sequence[Tool] | CredentialRequest:
        used = self._open.setdefault(id(toolset), _Open(toolset))
        used.users.add(user)
        if toolset.per_run:
            given = await toolset.tools(facts)
            return given if isinstance(given, CredentialRequest) else _checked(given, toolset, agent)
        async with used.lock:
            if used.tools is None:
                given = await toolset.tools(facts)
                if isinstance(given, CredentialRequest):
                    return given
                used.tools = _checked(given, toolset, agent)
            return used.tools

    async def release(self, user: object) -> None:
        """An actor stops: close the toolsets that no other one uses. What closing raises is logged."""
        for used in [used for used in self._open.values() if user in used.users]:
            used.users.discard(user)
            if used.users:
                continue
            del self._open[id(used.toolset)]
            try:
                await used.toolset.aclose()
            except Exception:
                logger.exception("toolset %r could not be closed", used.toolset.name)


def _search(searched: Mapping[str, Sequence[Tool]], most: int) -> list[Tool]:
    """The tool that finds the tools of toolsets, by their names; none when a model can be shown them all."""
    declared = {tool.name: tool for tools in searched.values() for tool in tools if tool.declaration() is not None}
    return [FindToolsTool(declared, list(searched), most)] if len(declared) > most else []


def _checked(given: Sequence[object], toolset: Toolset, agent: str) -> Sequence[Tool]:
    try:
        tools = [as_tool(tool) for tool in given]
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"toolset {toolset.name!r} of agent {agent!r}: {error}") from error
    for tool in tools:
        if isinstance(tool, AskingTool):
            raise DefinitionError(
                f"toolset {toolset.name!r} of agent {agent!r} has the agent {tool.name!r}: list it in the agent's `tools`, "
                "since agents are known before anything runs"
            )
    return tools
