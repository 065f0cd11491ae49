"""The agents that order the runs of their children (seed 004)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from actors.definitions.agents.base import Agent
from actors.definitions.agents.supervision import Supervision
from actors.messages.flow import CONTROLLER


class WorkflowAgent(Agent):
    """What the agents have in common that run others.

    Attributes:
        supervision: what it does when a child fails.
    """

    supervision: Supervision = Supervision()


class SequentialAgent(WorkflowAgent):
    """Runs each child once, in order."""

    kind: ClassVar[Literal["sequential"]] = "sequential"


class ParallelAgent(WorkflowAgent):
    """Runs all children at once, each on a branch of its own."""

    kind: ClassVar[Literal["parallel"]] = "parallel"


class Controller(Agent):
    """Orders the work on the tasks of a flow (seed 003); which flow, it is told when it is run."""

    kind: ClassVar[Literal["flow"]] = "flow"

    name: str = CONTROLLER

    @property
    def agent_names(self) -> Sequence[str]:
        """The agents that it runs, wherever in the tree they stand."""
        return ()


class LoopAgent(WorkflowAgent):
    """Runs its children in order, again and again, until one escalates.

    Attributes:
        max_iterations: at most so many rounds; None or 0 is no limit.
        on_escalate: "propagate" ends every enclosing loop as well, "absorb" only this one.
    """

    kind: ClassVar[Literal["loop"]] = "loop"

    max_iterations: int | None = Field(default=None, ge=0)
    on_escalate: Literal["propagate", "absorb"] = "propagate"
