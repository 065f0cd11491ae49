"""Tools of google-adk as raygrove's."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from threading import local
from typing import Any
from weakref import finalize

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool as AdkFunctionTool
from pydantic import BaseModel

from actors.definitions.agents import BaseAgent
from actors.definitions.agents.agent_tools import TextRequest
from actors.definitions.schemas import json_schema
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.definitions.tools.function import names_run_node
from actors.errors.user_code import in_thread
from actors.layers.agent_tool import AgentTool
from actors.messages.event import RequestedInput
from actors.messages.json_types import JsonObject
from actors.messages.llm import FunctionDeclaration, LlmRequest
from runtime.integrations.adk import contexts
from runtime.integrations.adk.contexts import Source
from runtime.integrations.adk.graph_nodes import NodesBelow, is_generator
from runtime.integrations.adk.requests import RequestView, own_declaration
from runtime.integrations.adk.services import ASKS_CREDENTIAL, credential_state

NO_QUESTION = RequestedInput(question={})
"""Stands for the question of a call that asks nothing."""

logger = logging.getLogger(__name__)


class AskedAgent(AgentTool):
    """An agent as a tool, whose arguments models get in the form that ADK gives them: with the titles of pydantic.

    Args:
        adk: ADK's AgentTool, which callbacks are given, with an agent that has a name and a description only.
    """

    def __init__(self, agent: BaseAgent, adk: Any) -> None:
        super().__init__(agent, skip_summarization=adk.skip_summarization)
        self.adk = copy.copy(adk)
        self.adk.agent = AdkBaseAgent(name=adk.agent.name, description=adk.agent.description)

    def parameters(self) -> JsonObject:
        """The schema of its arguments."""
        return super().parameters() if self._input is TextRequest else json_schema(self._input)


class AdkTool(Tool):
    """A BaseTool as a tool.

    Attributes:
        credentials: of the toolset that it comes from, by ADK's keys.
    """

    has_any_name = replaces_transfer = True

    def __init__(self, source: Source, adk: BaseTool) -> None:
        self.name = adk.name
        self.description = adk.description or ""
        self.is_long_running = bool(adk.is_long_running)
        # A function says it of each call.
        self.require_confirmation = bool(getattr(adk, "_require_confirmation", False))
        self.adk = adk
        self.credentials: dict[str, Any] = {}
        self._source = source
        function = getattr(adk, "func", None) if isinstance(adk, AdkFunctionTool) else None
        self._code = function or adk.run_async
        # ADK runs a generator as a node below the call.
        gives_one_by_one = function is not None and is_generator(function)
        self.runs_nodes = gives_one_by_one or names_run_node(self._code)
        # A method of an object, and a callable object, are async by their __call__.
        self._blocks = not (
            function is None
            or gives_one_by_one
            or inspect.iscoroutinefunction(function)
            or inspect.iscoroutinefunction(type(function).__call__)
        )

    def declaration(self) -> FunctionDeclaration | None:
        """The tool as the model sees it; None for one that only changes requests, such as google_search."""
        declared = self.adk._get_declaration()
        return own_declaration(declared) if declared is not None else None

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Have ADK's tool change the request, if it has a method for that."""
        if type(self.adk).process_llm_request is BaseTool.process_llm_request:
            return
        names = [tool.name for tool in request.tools]
        # ADK declares it only where its method does: some have the model's service look things up instead.
        request.tools = [tool for tool in request.tools if tool.name != self.name]
        view = RequestView(request, schema=self._source.output_schema)
        theirs = contexts.tool_context(self._source.agent, context, self._source.app_name)
        await self.adk.process_llm_request(tool_context=theirs, llm_request=view.adk)
        await view.fold_instructions()
        view.carry_back()
        found = {tool.name: tool for tool in request.tools}
        if self.name not in names and not self._is_declared():
            found.pop(self.name, None)
        # Where it was before, if it is there again.
        order = [name for name in names if name in found] + [name for name in found if name not in names]
        request.tools = [found[name] for name in order]
        contexts.carry_back(theirs, context)

    def _is_declared(self) -> bool:
        return self.adk._get_declaration() is not None

    async def needs_confirmation(self, args: JsonObject, context: ToolContext) -> bool:
        """Ask ADK's tool. One that cannot say so fails when it runs, as in ADK."""
        if not callable(getattr(self.adk, "_require_confirmation", False)):
            return True
        theirs = contexts.tool_context(self._source.agent, context, self._source.app_name)
        try:
            return bool(await self.adk.check_require_confirmation(args, theirs))
        except Exception as error:
            logger.info("tool %r of agent %r does not say whether a call needs consent: %s", self.name, context.agent_name, error)
            return False

    async def run(self, args: JsonObject, context: ToolContext) -> Any:
        """Run ADK's tool; a sync function in a thread."""
        theirs = contexts.tool_context(self._source.agent, context, self._source.app_name, is_confirmed=self.require_confirmation)
        theirs.__dict__["_run_node"] = NodesBelow(theirs, context, self._source.app_name)
        if (given := context.input) is not None and ASKS_CREDENTIAL in given.memo:
            theirs.state.update(await credential_state(given.memo, given.response, context.function_call_id))
        if self.credentials:
            theirs._invocation_context.credential_by_key.update(self.credentials)
        if self._blocks:
            result = await in_thread(in_own_loop, tool=self.adk, args=args, context=theirs)
        else:
            await contexts.read_events_for(self._code, context)
            result = await self.adk.run_async(args=args, tool_context=theirs)
        self._source.check_unchanged()
        contexts.carry_back(theirs, context)
        if ASKS_CREDENTIAL in context.actions.requested_inputs.get(context.function_call_id, NO_QUESTION).question:
            # What it says while it waits is not its result.
            return None
        # ADK wraps whatever is no dictionary.
        return {"result": result} if isinstance(result, BaseModel) else result


class _Loop:
    """An event loop of one thread, which ends with the thread. Making one for each call takes as long as ten calls.

    The loop is closed by a finalizer, not by `__del__`: an error of a tool holds its loop in a circle of references, and of what
    is in a circle Python may close the loop's sockets first, after which the loop itself cannot be closed.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # Not at the end of the process: the loop may run in a thread that is still there.
        finalize(self, self.loop.close).atexit = False


_of_thread = local()


def in_own_loop(tool: Any, args: JsonObject, context: Any) -> Any:
    """Run a tool to its end in the event loop of this thread, which is made at the first call and closed when the thread ends."""
    own: _Loop | None = getattr(_of_thread, "own", None)
    if own is None:
        own = _of_thread.own = _Loop()
    return own.loop.run_until_complete(tool.run_async(args=args, tool_context=context))
