"""What a workflow agent does when a child fails."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.definitions.agents.base import wrongly_defined
from actors.errors import DefinitionError


class Supervision(BaseModel):
    """What a workflow agent does when the run of a child fails, or when its actor was lost too often.

    The failure's own event stays in the log, and so does what was decided, as an event by the supervisor. A child that is
    run again begins anew, and sees what it did before as it sees any of its past. Limits of the whole turn, such as the number of
    model calls, and cancellation always go up.

    Attributes:
        strategy: "escalate" makes the failure the supervisor's own, which is then supervised by the one above it, and is the
            turn's at last. "restart" runs the child again, and escalates when that was done too often. "skip" goes on without it.
        max_restarts: a child is run again at most so often in `within_s` seconds, in one run of its supervisor.
        backoff_s: seconds before the first restart; before each that follows twice as long, but no longer than `max_backoff_s`.

    Raises:
        DefinitionError: a field is unknown or wrong; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Literal["escalate", "restart", "skip"] = "escalate"
    max_restarts: int = Field(default=3, ge=0)
    within_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    backoff_s: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    max_backoff_s: float = Field(default=30.0, ge=0, allow_inf_nan=False)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise DefinitionError(wrongly_defined("Supervision", data.get("strategy", "escalate"), error)) from error
