"""The agents that order the runs of their children, and what they do when one fails."""

from __future__ import annotations

from typing import ClassVar, Literal, Never

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.definitions.agents.base import BaseAgent, ShownByChanges, refuse_unnamed, wrongly_defined
from actors.errors import DefinitionError


class Supervision(ShownByChanges, BaseModel):
    """What a workflow agent does when the run of a child fails, or when the child's actor was lost too often.

    The event of the failure stays in the log, and the supervisor adds an event with its decision. A child that is run again
    begins anew and sees its earlier events like any of its past. Cancellation and limits of the whole turn, such as the number
    of model calls, always go up.

    Attributes:
        strategy: "escalate", the default, makes the failure the supervisor's own: the agent above supervises that, and at the
            root it fails the turn. "restart" runs the child again, and escalates when `max_restarts` is used up. "skip" goes
            on without the child.
        max_restarts: restarts of one child within `within_s`, in one run of the supervisor; default 3.
        within_s: seconds for which a restart counts; default 60.
        backoff_s: seconds before the first restart; each further wait is twice as long. Default 0.5.
        max_backoff_s: the longest wait in seconds; default 30.

    Raises:
        DefinitionError: a field is unknown or wrong; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Literal["escalate", "restart", "skip"] = "escalate"
    max_restarts: int = Field(default=3, ge=0)
    within_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    backoff_s: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    max_backoff_s: float = Field(default=30.0, ge=0, allow_inf_nan=False)

    def __init__(self, *unnamed: Never, **fields: object) -> None:
        refuse_unnamed(type(self), unnamed, "strategy")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DefinitionError(wrongly_defined(type(self), fields.get("strategy", "escalate"), error)) from error


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

    @property
    def absorbs_escalation(self) -> bool:
        """True with on_escalate="absorb"."""
        return self.on_escalate == "absorb"
