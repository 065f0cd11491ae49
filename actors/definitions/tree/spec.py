"""What one agent's actor is given of the tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from actors.definitions.agents.base import Agent, callbacks
from actors.definitions.agents.plugin import Plugin, hooks
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.rules.prompt.transfer_menu import TransferMenu
from actors.rules.routing.transfer import Target


@dataclass(frozen=True)
class AgentSpec:
    """Everything that one agent's actor needs to know, and nothing of the rest of the tree.

    Attributes:
        definition: the agent, without its children.
        children: their names, in order.
        targets: to whom it may transfer.
        tool_agents: the agents that it has as tools.
        global_instruction: the root's; for an agent that is a tool, or is below one, that agent's.
        model: the model's name or object, its own or inherited; "" for agents without one.
        plugins: the deployment's.
        limits: how large its events may be, and of how many targets its model is told.
    """

    definition: Agent
    children: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    tool_agents: tuple[str, ...] = ()
    global_instruction: Any = ""
    model: Any = field(default="")
    plugins: tuple[Plugin, ...] = ()
    limits: Limits = DEFAULT_LIMITS

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.definition.name

    @cached_property
    def reach(self) -> TransferMenu:
        """The targets, as its model gets to know them."""
        return TransferMenu(self.name, self.targets, self.children, self.limits.max_listed_targets)

    def hooks(self, name: str) -> Sequence[Callable[..., Any]]:
        """What is called at a point such as `before_agent_callback`: the plugins' hooks, then the agent's own callbacks."""
        return [*hooks(self.plugins, name), *callbacks(getattr(self.definition, name, None))]
