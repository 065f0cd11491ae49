"""The flow definitions that agents can look up: those of the tree, and those sent with turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from actors.errors import FlowNotFoundError
from actors.rules.capacity.lru import LruDict

MAX_ADDED = 1_000
"""Definitions kept of those sent with turns; the least recently used is dropped first."""

PlanT = TypeVar("PlanT")
"""A FlowPlan, or its pickled form."""


class FlowRegistry(Generic[PlanT]):
    """Flow definitions by name.

    Args:
        permanent: the definitions of the tree, which are never dropped.
    """

    def __init__(self, permanent: Mapping[str, PlanT]) -> None:
        self._permanent = dict(permanent)
        self._added: LruDict[str, PlanT] = LruDict(MAX_ADDED)

    def add(self, name: str, plan: PlanT) -> None:
        """Add a definition, or replace the one of that name."""
        self._added[name] = plan

    async def find(self, name: str) -> PlanT:
        """A definition. Raises FlowNotFoundError."""
        plan = self.get(name)
        if plan is None:
            raise FlowNotFoundError(name)
        return plan

    def get(self, name: str) -> PlanT | None:
        """A definition, or None."""
        plan = self._added.get(name)
        return plan if plan is not None else self._permanent.get(name)
