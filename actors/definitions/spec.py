"""What one agent's actor is given of the tree."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

from actors.definitions.agents.agent_tools import RULES, transfer_tools
from actors.definitions.agents.base import BaseAgent, callbacks
from actors.definitions.agents.callbacks import Plugin, UserCallback, hooks
from actors.definitions.agents.llm import Instruction, LlmAgent
from actors.definitions.tools.base import Tool, Toolset
from actors.interfaces.model import Model, name_of
from actors.messages.config import DEFAULT_LIMITS, Limits
from actors.messages.topology import SINGLE_TURN, TASK
from actors.rules.prompt import instructions
from actors.rules.routing.transfer import TRANSFER_TOOL, Target, TransferMenu


class OwnTools:
    """Tools by name. What runs ask of all of them is found once, and not in every run.

    Args:
        by_name: the tools.

    Attributes:
        by_name: the same.
        changing: those that change the requests of models.
        hidden: the names of those that others show models when these ask for them.
        may_wait: a call of one of them can wait for the user.
    """

    __slots__ = ("by_name", "changing", "hidden", "may_wait")

    def __init__(self, by_name: Mapping[str, Tool]) -> None:
        tools = by_name.values()
        self.by_name = by_name
        self.changing = [tool for tool in tools if type(tool).process_request is not Tool.process_request]
        self.hidden = frozenset(name for tool in tools for name in tool.hides)
        self.may_wait = may_wait(tools)


def may_wait(tools: Iterable[Tool]) -> bool:
    """True when a call of one of them can wait for the user."""
    return any(tool.is_long_running or tool.require_confirmation for tool in tools)


T = TypeVar("T")


@dataclass(frozen=True)
class AgentSpec:
    """Everything that one agent's actor needs to know, and nothing of the rest of the tree.

    Attributes:
        definition: the agent, without its children.
        children: the names of its children, in order.
        targets: the agents to which it may transfer.
        tool_agents: the names of the agents that it has as tools.
        global_instruction: the root's; for an agent that is a tool, or stands below one, that tool agent's.
        model: the model's name or object, its own or inherited; "" for an agent that needs none.
        plugins: the deployment's.
        limits: how large its events may be, and how many targets its model gets by name.
        settings: of features: see `setting`.
        is_node: it is a node of a graph.
    """

    definition: BaseAgent
    children: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    tool_agents: tuple[str, ...] = ()
    global_instruction: Instruction = ""
    model: str | Model = ""
    plugins: tuple[Plugin, ...] = ()
    limits: Limits = DEFAULT_LIMITS
    settings: Sequence[object] = ()
    is_node: bool = False

    def setting(self, kind: type[T]) -> T | None:
        """The settings of a feature, by their class; None: the agent does without it."""
        return next((each for each in self.settings if isinstance(each, kind)), None)

    @cached_property
    def name(self) -> str:
        """The agent's name."""
        return self.definition.name

    @cached_property
    def llm_agent(self) -> LlmAgent:
        """The definition of an LLM agent."""
        return cast(LlmAgent, self.definition)

    @cached_property
    def kind(self) -> str:
        """The kind of its definition."""
        return self.definition.kind

    @cached_property
    def mode(self) -> str | None:
        """See LlmAgent, with its default for a node of a graph; None for any other agent."""
        if not isinstance(self.definition, LlmAgent):
            return None
        return self.definition.mode or (SINGLE_TURN if self.is_node else None)

    @cached_property
    def model_name(self) -> str:
        """The name by which its model's limits and prices are found."""
        return name_of(self.model)

    @cached_property
    def has_toolsets(self) -> bool:
        """It has tools that are known only when a toolset has been asked."""
        return any(isinstance(tool, Toolset) for tool in self.llm_agent.tools)

    @cached_property
    def has_runs_below(self) -> bool:
        """Agents below it work for its calls, or its tools run nodes."""
        tools = self.definition.tools if isinstance(self.definition, LlmAgent) else ()
        return bool(self.definition.delegates) or any(getattr(tool, "runs_nodes", False) for tool in tools)

    @cached_property
    def has_run_callbacks(self) -> bool:
        """It has before_agent or after_agent callbacks."""
        return bool(self.hooks("before_agent_callback") or self.hooks("after_agent_callback"))

    @cached_property
    def on_event(self) -> Sequence[UserCallback]:
        """The hooks that are shown its events."""
        return self.hooks("on_event_callback")

    @cached_property
    def identity(self) -> str:
        """The part of the system instruction that names it; "" for one that answers its input once."""
        return "" if self.mode == SINGLE_TURN else instructions.identity(self.name, self.definition.description)

    @cached_property
    def fixed_instruction(self) -> str | None:
        """The whole system instruction of an LLM agent; None where a part of it is a template, or a function."""
        agent = self.llm_agent
        own = "" if agent.static_instruction else agent.instruction
        if any(not isinstance(given, str) or "{" in given for given in (self.global_instruction, own)):
            return None
        menu, rules = self.transfer_menu.instruction, RULES if self.mode == TASK else ""
        return instructions.join([str(self.global_instruction), agent.static_instruction, str(own), self.identity, menu, rules])

    @cached_property
    def transfer_menu(self) -> TransferMenu:
        """The targets as the agent's model sees them."""
        return TransferMenu(self.name, self.targets, self.children, self.limits.max_listed_targets)

    @cached_property
    def own_tools(self) -> OwnTools:
        """The tools that an LLM agent has in every run: its own, and those of transfers."""
        by_name = {tool.name: tool for tool in self.llm_agent.tools}
        return OwnTools({**by_name, **self.tools_of_transfers(by_name)})

    def tools_of_transfers(self, known: Collection[str]) -> dict[str, Tool]:
        """The tools by which the agent transfers; a tool of its own may stand in place of the one that has their name.

        Args:
            known: the names of its other tools.
        """
        given = transfer_tools(self.transfer_menu) if self.targets else ()
        return {tool.name: tool for tool in given if not (tool.name == TRANSFER_TOOL and TRANSFER_TOOL in known)}

    @cached_property
    def as_tool(self) -> AgentSpec:
        """The same agent when it is asked as a tool: it may only transfer to its own children."""
        targets = tuple(target for target in self.targets if target.name in self.children)
        return self if targets == self.targets else replace(self, targets=targets)

    def hooks(self, name: str) -> Sequence[UserCallback]:
        """The callbacks of a point such as `before_agent_callback`: the plugins' first, then the agent's own."""
        found = self._hooks.get(name)
        if found is None:
            own = [UserCallback(function, name) for function in callbacks(getattr(self.definition, name, None))]
            found = self._hooks[name] = [*hooks(self.plugins, name), *own]
        return found

    @cached_property
    def _hooks(self) -> dict[str, Sequence[UserCallback]]:
        return {}
