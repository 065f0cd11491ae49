"""Toolsets: they are opened once for all agents of a process, ask users for credentials, and large ones are searched.

Where an agent has too many tools to show them all, its model sees those that it has found, or called, in the conversation that it
gets: so nothing has to be remembered, and a run that goes on after a loss sees the same tools (semantics.md section 5).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from actors.agent.environment import Toolsets
from actors.behaviours.lifecycle import facts_for_user_code
from actors.definitions.agents.agent_tools import AskingTool
from actors.definitions.agents.llm import as_tool, check_tools
from actors.definitions.spec import AgentSpec
from actors.definitions.tools.base import CredentialRequest, Tool, Toolset
from actors.definitions.tools.context import CallbackContext, ReadonlyContext, ToolContext
from actors.errors import DefinitionError, NotCarriedOverError
from actors.errors.user_code import in_thread
from actors.interfaces.context import Context
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import USER, Event
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.llm import FunctionDeclaration, LlmRequest
from actors.messages.protocol.runs import Paused
from actors.rules.checks.questions import REQUEST_CREDENTIAL, TOOLSET, asks_credential
from actors.rules.routing.branches import tool_root
from actors.rules.routing.transfer import MAX_FOUND, AgentSearch

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


async def ask_for_credentials(asked: Sequence[CredentialRequest], context: Context, *, can_wait: bool) -> Paused:
    """Store a call for each request that has none yet, and pause for the answers.

    Args:
        can_wait: the run can pause for the user: it is no round of a flow.

    Raises:
        NotCarriedOverError: nothing can wait for a user where the agent works.
    """
    if not can_wait or tool_root(context.branch) is not None:
        raise NotCarriedOverError(
            f"toolset {asked[0].toolset!r} of agent {context.agent_name!r} asks the user for a credential, but it works "
            "as a tool or on a task of a flow, where nothing can wait for that: give the toolset to an agent of the conversation"
        )
    known = open_requests(await context.log.read(), context.invocation_id, context.agent_name)
    calls = {
        request.toolset: FunctionCall(
            id=f"credential-{uuid.uuid4().hex}", name=REQUEST_CREDENTIAL, args={TOOLSET: request.toolset, **request.question}
        )
        for request in asked
        if request.toolset not in known
    }
    if calls:
        parts = [Part(function_call=call) for call in calls.values()]
        ids = [call.id or "" for call in calls.values()]
        await context.emit(Event(content=Content(role="model", parts=parts), long_running_tool_ids=ids))
    return Paused(
        call_ids=tuple(calls[each.toolset].id or "" if each.toolset in calls else known[each.toolset] for each in asked)
    )


def forget_requests(context: Context) -> None:
    """Leave the calls for toolsets out of what a run has done: one that has done nothing else has yet to begin."""
    if not context.done and not context.resume_at:
        return
    left = [event for event in context.done if not asks_credential(event)]
    is_answered = any(response.name == REQUEST_CREDENTIAL for response in context.user_content.function_responses())
    if not left and (context.done or is_answered):
        context.resume_at = ()
    context.done = left


def open_requests(events: Iterable[Event], invocation_id: str, agent: str) -> Mapping[str, str]:
    """The calls of an agent in a turn that the user has not answered: by toolset the id of the newest one."""
    found: dict[str, str] = {}
    for event in events:
        if event.invocation_id != invocation_id:
            continue
        if event.author == USER:
            answered = {response.id for response in event.function_responses()}
            found = {toolset: call_id for toolset, call_id in found.items() if call_id not in answered}
        elif event.author == agent and asks_credential(event):
            found.update((str((call.args or {}).get(TOOLSET)), call.id or "") for call in event.function_calls())
    return found


FIND_TOOLS = "find_tools"

MAX_SHOWN_DESCRIPTION = 300
"""Characters of a description in the result of a search; the model sees all of it when the tool is shown to it."""


class FindToolsTool(Tool):
    """`find_tools`, for an agent whose toolsets have more tools than its model is shown.

    The others can be called all the same, so a call that waits for a person is run when the answer comes.

    Args:
        tools: the tools that are found, by name.
        toolsets: the names of the toolsets that they come from.
        most: how many of them a model sees at the same time.
    """

    name = FIND_TOOLS

    def __init__(self, tools: Mapping[str, Tool], toolsets: Sequence[str], most: int) -> None:
        self._declarations = [declaration for tool in tools.values() if (declaration := tool.declaration()) is not None]
        self._toolsets = toolsets
        self._tools = tools
        self._most = most
        self.hides = frozenset(tools)

    @cached_property
    def _search(self) -> AgentSearch:
        return AgentSearch([each.name for each in self._declarations], [each.description for each in self._declarations])

    def declaration(self) -> FunctionDeclaration:
        """One required string, `query`."""
        return FunctionDeclaration(
            name=FIND_TOOLS,
            description=(
                f"Find functions: there are {len(self._declarations)} more than you see here, of {', '.join(self._toolsets)}. "
                f"You get names and descriptions of the {MAX_FOUND} that fit best, and can call them from then on."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words for what the function has to do, or a part of its name."}
                },
                "required": ["query"],
            },
        )

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Show the model the tools that it has found or called in the conversation."""
        # Read by the list's own method: each content that is looked at otherwise becomes a copy that may be changed.
        contents = (content for content in list.__iter__(request.contents) if isinstance(content, Content))
        request.append_tools([self._tools[name] for name in self._shown(contents)])

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Return the names and descriptions of the tools that fit best. Raises ValueError without words to look for."""
        query = args.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError(f"{FIND_TOOLS} needs the argument query, words to look for")
        return await in_thread(self._found, query)

    def _found(self, query: str) -> JsonObject:
        """The result of a search: names and descriptions of the tools that fit best, the best first."""
        found = [self._declarations[index] for index in self._search.find(query)]
        if not found:
            return {"tools": [], "hint": "No function fits these words. Try others."}
        return {"tools": [{"name": each.name, "description": each.description[:MAX_SHOWN_DESCRIPTION]} for each in found]}

    def _shown(self, contents: Iterable[Content]) -> list[str]:
        """The names of the tools that a model sees with these contents: the newest that it has found or called.

        They stand in the order in which they were first found, the best of a search first: so what a service has cached of the
        requests before still fits.

        Args:
            contents: the conversation, oldest first.
        """
        first: dict[str, None] = {}
        newest: dict[str, None] = {}
        for content in contents:
            for name in _mentioned(content):
                if name in self._tools:
                    first.setdefault(name)
                    # What is mentioned again is new again.
                    newest.pop(name, None)
                    newest[name] = None
        kept = set(list(newest)[-self._most :])
        return [name for name in first if name in kept]


def _mentioned(content: Content) -> Iterable[str]:
    """The names of the functions that a content calls, or that a search has found, the best first."""
    for call in content.function_calls():
        yield call.name
    for response in content.function_responses():
        if response.name == FIND_TOOLS:
            yield from _names(response.response)


def _names(response: JsonMapping) -> list[str]:
    found = response.get("tools")
    return [str(each.get("name")) for each in found if isinstance(each, dict)] if isinstance(found, list) else []
