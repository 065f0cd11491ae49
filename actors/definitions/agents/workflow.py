"""The agents that order the runs of their children."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.supervision import Supervision


class WorkflowAgent(BaseAgent):
    """The fields that SequentialAgent, ParallelAgent and LoopAgent share.

    Attributes:
        supervision: what happens when the run of a child fails; by default the failure becomes the agent's own.
    """

    supervision: Supervision = Supervision()


class SequentialAgent(WorkflowAgent):
    """Runs each child once, in order. A child that escalates does not end it, only an enclosing loop."""

    kind: ClassVar[Literal["sequential"]] = "sequential"


class ParallelAgent(WorkflowAgent):
    """Runs all children at once, each on a branch of its own, so that none sees the others' events."""

    kind: ClassVar[Literal["parallel"]] = "parallel"


class LoopAgent(WorkflowAgent):
    """Runs its children in order, again and again, until one escalates.

    Attributes:
        max_iterations: the number of rounds after which the loop ends; None, the default, and 0 set no limit.
        on_escalate: "propagate", the default, ends every enclosing loop as well; "absorb" ends only this one.
    """

    kind: ClassVar[Literal["loop"]] = "loop"

    max_iterations: int | None = Field(default=None, ge=0)
    on_escalate: Literal["propagate", "absorb"] = "propagate"
