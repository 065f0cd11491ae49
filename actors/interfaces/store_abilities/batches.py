"""What a SessionStore needs besides, so that maps and evaluations can be told of."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from actors.messages.operating.batch import BatchInfo, BatchItem

MAX_BATCHES = 1_000
"""How many batches of an app are kept: those that began last."""


@runtime_checkable
class KeepsBatches(Protocol):
    """A SessionStore that keeps batches. It also does `PutBatch` and `ForgetBatches`.

    Both methods raise StoreUnavailableError and StoreError as those of SessionStore do.
    """

    def batches(self, app: str, batch_id: str = "", *, limit: int) -> list[BatchInfo]:
        """Batches of an app, the one that began last first.

        Args:
            batch_id: only that one; "": all.
            limit: at most so many.
        """
        ...

    def batch_items(self, app: str, batch_id: str, *, after: int, limit: int) -> list[BatchItem]:
        """The items that are kept of a batch, by position.

        Args:
            after: only those after this position.
            limit: at most so many.
        """
        ...
