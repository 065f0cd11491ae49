"""Which versions of a tree turns have begun with that are not over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class KnowsVersions(Protocol):
    """What a SessionStore needs besides, so that versions are given up which no turn needs: it keeps `TurnRow.version`."""

    def open_versions(self, app: str) -> Sequence[str]:
        """The versions of turns of an app that run or are paused. The cost must not grow with turns that are over.

        Raises:
            StoreUnavailableError: the store is away or locked.
            StoreError: the store failed.
        """
        ...
