"""What all runs of one agent share."""

from __future__ import annotations

from functools import cached_property

from actors.agent.environment import AgentEnvironment
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.model import Model


class AgentParts:
    """The definition of one agent, the means of its process, and its model.

    Args:
        spec: the agent's definition and its place in the tree.
        environment: what the agents of the process share.

    Attributes:
        counts: the figures of the agent's actor.
        interceptors: those that runs of the agent may have.
        ledger: makes what one of them folds of logs; None: none does.
    """

    def __init__(self, spec: AgentSpec, environment: AgentEnvironment) -> None:
        self.spec = spec
        self.environment = environment
        self.interceptors = [each for each in environment.interceptors if each.concerns(spec)]
        self.ledger = next((each.ledger for each in self.interceptors if each.ledger is not None), None)
        self.counts = {"runs": 0, "events": 0, "partials": 0, "llm_calls": 0}

    @cached_property
    def model(self) -> Model:
        """The agent's model. Raises UnknownModelError."""
        return self.environment.resolve(self.spec.name, self.spec.model)

    async def aclose(self) -> None:
        """Close the connections of the model and of toolsets."""
        close = getattr(vars(self).get("model"), "aclose", None)
        if close is not None:
            await close()
        await self.environment.toolsets.release(self)
