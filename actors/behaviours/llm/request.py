"""The request of one model call: built from the agent; tools and interceptors change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from actors.behaviours.llm.prompt import Prompt
from actors.behaviours.llm.tool_calls import ToolCalls
from actors.definitions.agents.finish_task import FinishTaskTool
from actors.definitions.tools.base import Tool
from actors.definitions.tree.own_tools import OwnTools
from actors.definitions.tree.spec import AgentSpec
from actors.messages.llm.drafts import ContentDrafts, own_contents
from actors.messages.llm.fields import GenerateContentConfig
from actors.messages.llm.model import FunctionDeclaration, LlmRequest


def own_tools(spec: AgentSpec, finish: FinishTaskTool | None, more: Sequence[Tool]) -> OwnTools:
    """The tools of an agent by name: its own, the one that ends its task, those of interceptors, and those of transfers.

    Args:
        finish: ends the task of an agent that works on one; None for any other agent.
        more: the tools of interceptors.
    """
    if finish is None and not more:
        return spec.own_tools
    by_name: dict[str, Tool] = {tool.name: tool for tool in spec.llm_agent.tools}
    if finish is not None:
        by_name[finish.name] = finish
    by_name.update((tool.name, tool) for tool in more)
    by_name.update(spec.tools_of_transfers(by_name))
    return OwnTools(by_name)


class RequestBuilder:
    """Builds the requests of an agent in one run.

    Args:
        may_change: interceptors change requests.

    Attributes:
        is_changed: tools or interceptors may change them, so they are copies.
    """

    def __init__(self, spec: AgentSpec, prompt: Prompt, tools: ToolCalls, *, may_change: bool) -> None:
        self._spec = spec
        self._prompt = prompt
        self._tools = tools
        # Others are not copied: a long conversation stands in one list for all requests.
        self.is_changed = bool(tools.given.changing) or may_change

    async def build(self) -> LlmRequest:
        """Return the request as interceptors get it. It has to be settled when they have changed it."""
        agent, tools = self._spec.llm, self._tools.own
        schema = agent.output_type
        declared = _declared(self._tools.given) if tools else {}
        contents = await self._prompt.contents()
        instruction = self._prompt.fixed_instruction
        if instruction is None:
            instruction = await self._prompt.system_instruction()
        request = LlmRequest(
            model=agent.model,
            agent=self._spec.name,
            contents=ContentDrafts(contents) if self.is_changed else contents,
            tools=list(declared.values()),
            config=GenerateContentConfig(agent.config, system_instruction=instruction),
            output_schema=dict(schema.json_schema) if schema is not None and self._prompt.has_output_schema else None,
        )
        if agent.code_executor is not None:
            agent.code_executor.process_request(request)
        if not self.is_changed:
            return request
        # The agent's configuration is not to be changed with the request.
        request.config = GenerateContentConfig.of(request.config)
        request.tools_dict.update((name, tools[name]) for name in declared)
        return request

    def settle(self, request: LlmRequest) -> None:
        """Bring what tools and interceptors have left in a request into the form that models get.

        Raises:
            TypeError: a content, the configuration or the system instruction is of a wrong kind.
            InvalidMessageError: a content has wrong fields.
        """
        if not self.is_changed:
            return
        contents = request.contents
        request.contents = contents.settled() if isinstance(contents, ContentDrafts) else own_contents(contents)
        request.config = GenerateContentConfig.of(request.config)
        self._tools.by_name = {**self._tools.own, **cast(Mapping[str, Tool], request.tools_dict)}


def _declared(tools: OwnTools) -> dict[str, FunctionDeclaration]:
    """The tools as models see them, by name, without those that others show them."""
    return {
        name: declaration
        for name, tool in tools.by_name.items()
        if name not in tools.hidden and (declaration := tool.declaration()) is not None
    }
