"""Builds the request of a model call of the past again, from the agent's definition and the log up to the call.

Rules of this file:

- A request is rebuilt only where nothing else had a say in it: then it equals, byte for byte, the one that went out. Users' code
  may answer otherwise today, and has seen what the log lacks: callbacks, functions as instructions, tools that change requests or
  declare themselves, planners, toolsets. The same holds for artifacts, and for state that other sessions change or no store has.
- What an agent is shown of the log is made by what makes it for a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from actors.behaviours.lifecycle import callback_context
from actors.behaviours.llm.prompt import AgentPrompt, Prompt
from actors.behaviours.llm.request import RequestBuilder, own_tools
from actors.behaviours.llm.tool_calls import ToolCalls
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.planners.built_in import BuiltInPlanner
from actors.definitions.planners.plan_re_act import PlanReActPlanner
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import Actions
from actors.definitions.tools.no_mcp import NoMcp
from actors.definitions.tools.requests.built_in import BuiltInTool
from actors.definitions.tools.toolset import Toolset
from actors.definitions.tree.own_tools import OwnTools
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.access import McpAccess
from actors.interfaces.context import Context
from actors.interfaces.session import LogAccess
from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.json_types import JsonMapping
from actors.messages.llm.model import LlmRequest
from actors.rules.prompt.history import History
from actors.rules.prompt.instructions import template_names
from actors.rules.prompt.task_history import TaskHistory

_OURS = "actors."
"""Begins the modules of tools whose declarations are a function of their definition."""


class PastRun:
    """A run as of one of its model calls: what an agent's prompt looks at of a `Context`.

    Args:
        history: the log as the agent saw it.
        state: the session's state then; without what the agent's instructions do not name.
    """

    def __init__(
        self, spec: AgentSpec, log: LogAccess, invocation_id: str, branch: str | None, history: History, state: JsonMapping
    ) -> None:
        self.agent_name = spec.name
        self.invocation_id = invocation_id
        self.branch = branch
        self.log = log
        self.state = state
        self.run_config = RunConfig()
        self.user_content = Content()
        self.mcp: McpAccess = NoMcp()
        self.seen_seqs = 0, 0
        self.llm_calls = 0
        self.artifacts: Any = None
        self.memory: Any = None
        self._history = history

    async def view(self) -> History:
        """The log as the agent saw it."""
        return self._history

    async def task_view(self) -> TaskHistory:
        """The log as the agent saw it in a round of a flow."""
        return cast(TaskHistory, self._history)


def inexact_because(spec: AgentSpec) -> str:
    """The reason why no request of an agent can be rebuilt; "" where they can."""
    agent = spec.definition
    if not isinstance(agent, LlmAgent):
        return f"{agent.name!r} is no LLM agent"
    if spec.hooks("before_model_callback"):
        return "a before_model_callback may have changed it"
    if any(callable(given) for given in (spec.global_instruction, agent.instruction)):
        return "an instruction is a function"
    if agent.planner is not None and type(agent.planner) not in (BuiltInPlanner, PlanReActPlanner):
        return f"the planner {type(agent.planner).__name__} may have changed it"
    return inexact_tools(agent.tools) or inexact_names(names_in_instructions(spec))


def inexact_tools(tools: Sequence[Tool | Toolset]) -> str:
    """The reason why no request with these tools can be rebuilt; "" where they can."""
    for tool in tools:
        if isinstance(tool, Toolset):
            return f"the toolset {tool.name!r} says at each run which tools it has"
        kind = type(tool)
        if kind.process_request is not Tool.process_request and kind is not BuiltInTool:
            return f"the tool {tool.name!r} may have changed it"
        if not kind.declaration.__module__.startswith(_OURS):
            return f"the tool {tool.name!r} declares itself by code of its own"
    return ""


def inexact_names(names: Sequence[str]) -> str:
    """The reason why no text can be filled in again that has these names in it; "" where it can."""
    if artifacts := [name for name in names if name.startswith("artifact.")]:
        return f"an instruction names {artifacts[0]!r}, and the artifact may have changed since"
    if shared := [name for name in names if ":" in name]:
        return f"an instruction names {shared[0]!r}, of which the session's log does not have all changes"
    return ""


def names_in_instructions(spec: AgentSpec) -> list[str]:
    """The names of state and artifacts that the agent's instructions have in their templates."""
    agent = spec.llm_agent
    templates = [spec.global_instruction, agent.instruction]
    return [name for template in templates if isinstance(template, str) for name in template_names(template)]


async def rebuilt_request(spec: AgentSpec, past: PastRun) -> LlmRequest:
    """Build the request of a model call again. Raises TemplateError.

    Args:
        spec: an agent for which `inexact_because` gives no reason.
    """
    context = cast(Context, past)
    return await settled_request(spec, context, AgentPrompt(spec, context), own_tools(spec))


async def settled_request(spec: AgentSpec, context: Context, prompt: Prompt, own: OwnTools) -> LlmRequest:
    """The request of a prompt, as models get it. Raises TemplateError.

    Args:
        own: the tools.
    """
    tools = ToolCalls(spec, context, own)
    requests = RequestBuilder(spec, prompt, tools)
    request = await requests.build(callback_context(context, Actions()))
    requests.settle(request)
    return request
