"""A flow as an agent of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.definitions.agents.base import Agent
from actors.definitions.agents.workflow import Controller
from actors.definitions.flows.flow import Flow
from actors.errors import DefinitionError


class FlowAgent(Controller):
    """Runs a flow; when it is done, it tells the results of the tasks that no other needs.

    The flow's agents are its children; those that the flow only names stand somewhere else in the tree.

    Args:
        flow: what to run.
        name: by default the flow's.

    Raises:
        DefinitionError: a field is missing, unknown or wrong; the message names it.
    """

    flow: Flow

    def __init__(self, flow: Flow | None = None, /, **data: Any) -> None:
        flow = data.setdefault("flow", flow)
        if not isinstance(flow, Flow):
            raise DefinitionError(f"FlowAgent needs a Flow, not {type(flow).__name__}")
        if data.get("sub_agents"):
            raise DefinitionError("the children of a FlowAgent are the agents of its flow: give no sub_agents")
        data.setdefault("name", flow.name)
        data.setdefault("description", flow.description)
        data["sub_agents"] = [agent for agent in flow.members.values() if agent is not None]
        super().__init__(**data)

    @property
    def agent_names(self) -> Sequence[str]:
        """The agents that it runs, wherever in the tree they stand."""
        return tuple(self.flow.members)

    def alone(self) -> Agent:
        """The same definition without the agents, which travel by themselves, and the flow, which is sent as its plan."""
        return self.model_copy(update={"sub_agents": (), "flow": None})
