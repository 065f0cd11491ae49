"""How fast a model may be called, and how operators change that while a deployment runs.

Rules of changes:

- A change is of one name: a model, or a pattern. It keeps those fields that it does not name.
- Only models can be limited that had limits, of their name or of a pattern, when the deployment started: calls of others are made
  without asking the actor that limits them.
- A changed pattern keeps its place among those of the settings. Any other change is of one model, whose exact name counts first.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.errors import DefinitionError, RequestError
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


LimitChange = Mapping[str, float | None]
"""The fields of ModelLimits that change, by name; None: no limit."""

_PATTERN = frozenset("*?[")


def limits_of(model: str, limits: Mapping[str, ModelLimits]) -> ModelLimits | None:
    """The limits of a model: those under its name, or else under the first pattern that its name matches, if any."""
    if model in limits:
        return limits[model]
    return next((found for pattern, found in limits.items() if fnmatchcase(model, pattern)), None)


def in_force(settings: Mapping[str, ModelLimits], changed: Mapping[str, ModelLimits]) -> Mapping[str, ModelLimits]:
    """The limits that hold, by names and patterns, in the order in which patterns count."""
    return {**settings, **changed}


def name_of(model: str, limits: Mapping[str, ModelLimits]) -> str:
    """The name or the pattern by whose limits a model goes; "" where there is none."""
    found = limits_of(model, limits)
    return next((name for name, each in limits.items() if each is found and limits_of(model, {name: each})), "")


def changed_limits(
    name: str, change: LimitChange, settings: Mapping[str, ModelLimits], changed: Mapping[str, ModelLimits]
) -> Mapping[str, ModelLimits]:
    """The changed limits after another change.

    Raises:
        RequestError: no such model had limits when the deployment started.
        DefinitionError: a value is out of range.
    """
    before = changed.get(name) or settings.get(name)
    if before is None:
        before = None if _PATTERN & set(name) else limits_of(name, in_force(settings, changed))
    if before is None:
        near = get_close_matches(name, settings, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise RequestError(
            f"model {name!r} had no limits when the deployment started, so its calls are not counted.{hint} "
            f"It has limits for: {', '.join(settings)}"
        )
    return {**changed, name: ModelLimits(**{**before.model_dump(), **change})}
