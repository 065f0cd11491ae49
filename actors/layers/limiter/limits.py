"""How fast a model may be called."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.errors import DefinitionError
from actors.errors.hints import problems


class ModelLimits(BaseModel):
    """Limits on the calls of one model by all agents of a deployment together.

    Users who wait take turns, and so do the sessions of each.

    Attributes:
        max_concurrency: calls at the same time; default None, for no limit.
        requests_per_minute: calls that begin within any minute, retries included; default None, for no limit.
        tokens_per_minute: tokens that calls use within a minute, as the model reports when a call has ended. A call under way
            counts as an average one, so the limit may be overshot. Default None, for no limit.
        max_retries: retries of a call that failed with status 429, 500, 502, 503 or 504, or without any answer; default 4.
        retry_ratio: the share of all calls, from 0 to 1, that may be retries; default 0.1.
        retry_reserve: retries that are allowed beyond that share; default 10. Calls beyond both fail at their first failure.

    Raises:
        DefinitionError: a field is unknown or out of range; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_concurrency: int | None = Field(default=None, gt=0)
    requests_per_minute: int | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, gt=0)
    max_retries: int = Field(default=4, ge=0)
    retry_ratio: float = Field(default=0.1, ge=0, le=1)
    retry_reserve: int = Field(default=10, ge=0)

    def __init__(self, **fields: object) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DefinitionError(f"ModelLimits: {problems(error, fields=type(self).model_fields)}") from None
