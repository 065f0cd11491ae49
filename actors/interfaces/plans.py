"""Where an agent finds the definition of a flow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from actors.errors import FlowNotFoundError

PlanSource = Callable[[str], Awaitable[Any]]
"""Gives the definition of a flow, a FlowPlan, by its name. Raises FlowNotFoundError."""


async def no_plans(definition: str) -> Any:
    """The source of whoever has no definitions of flows. Raises FlowNotFoundError."""
    raise FlowNotFoundError(definition)
