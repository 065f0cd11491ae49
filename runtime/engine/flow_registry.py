"""Definitions of flows where agents find them: those of the tree, and those that were given while it ran."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from actors.errors import FlowNotFoundError

KEPT = 1_000
"""Definitions that were given while the deployment ran and are kept; beyond it, the one unused for longest is dropped."""


class FlowRegistry:
    """Definitions by name.

    Args:
        standing: those of the deployment's tree, which are never dropped.
    """

    def __init__(self, standing: Mapping[str, Any]) -> None:
        self._standing = dict(standing)
        self._given: OrderedDict[str, Any] = OrderedDict()

    def keep(self, name: str, plan: Any) -> None:
        """Take a definition in."""
        self._given[name] = plan
        self._given.move_to_end(name)
        if len(self._given) > KEPT:
            self._given.popitem(last=False)

    async def find(self, name: str) -> Any:
        """A definition. Raises FlowNotFoundError."""
        plan = self.get(name)
        if plan is None:
            raise FlowNotFoundError(name)
        return plan

    def get(self, name: str) -> Any:
        """A definition, or None."""
        if name in self._given:
            self._given.move_to_end(name)
            return self._given[name]
        return self._standing.get(name)
