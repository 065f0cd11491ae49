"""Limits of models that operators change while a deployment runs.

Rules of this file:

- A change is of one name: a model, or a pattern. It keeps those fields that it does not name.
- Only models can be limited that had limits, of their name or of a pattern, when the deployment started: calls of others are made
  without asking the actor that limits them.
- A changed pattern keeps its place among those of the settings. Any other change is of one model, whose exact name counts first.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from actors.errors import RequestError
from actors.layers.limiter.limits import ModelLimits
from actors.layers.limiter.rate_limiter import limits_of

LimitChange = Mapping[str, float | None]
"""The fields of ModelLimits that change, by name; None: no limit."""

_PATTERN = frozenset("*?[")


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
