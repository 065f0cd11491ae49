"""The flow definitions that agents can look up: those of the tree, and those sent with turns."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Generic, TypeVar

from actors.errors import FlowNotFoundError
from actors.rules.capacity.eviction import LruDict

MAX_ADDED = 1_000
"""Definitions kept of those sent with turns; the least recently used is dropped first."""

PlanT = TypeVar("PlanT")
"""A FlowPlan, its pickled form, or what a driver keeps of it."""


class FlowRegistry(Generic[PlanT]):
    """Flow definitions by name. Any thread may use it.

    Args:
        permanent: the definitions of the tree, which are never dropped.
    """

    def __init__(self, permanent: Mapping[str, PlanT]) -> None:
        self._permanent = dict(permanent)
        self._added: LruDict[str, PlanT] = LruDict(MAX_ADDED)
        self._lock = threading.Lock()

    def add(self, name: str, plan: PlanT) -> None:
        """Add a definition, or replace the one of that name."""
        with self._lock:
            self._added[name] = plan

    async def find(self, name: str) -> PlanT:
        """A definition. Raises FlowNotFoundError."""
        plan = self.get(name)
        if plan is None:
            raise FlowNotFoundError(name)
        return plan

    def get(self, name: str) -> PlanT | None:
        """A definition, or None."""
        with self._lock:
            plan = self._added.get(name)
        return plan if plan is not None else self._permanent.get(name)

    def added(self) -> list[str]:
        """The names of the definitions that were sent with turns, the least recently used first."""
        with self._lock:
            return list(self._added)
