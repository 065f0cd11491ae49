"""Maps and evaluations: `rt.batches` and `rt.aio.batches`, and `/v1/apps/{app}/batches`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from actors.errors import RequestError
from actors.errors.hints import explains_all_wrong_calls
from actors.layers.batches import ListBatches, ListBatchItems
from actors.layers.stores.batch import BATCH_KINDS, BatchInfo, BatchItem, BatchKind
from runtime.driver.arguments import checked_choice, checked_number
from runtime.driver.inputs import MAX_NUMBER, Limit
from runtime.driver.operation import AppOperation
from runtime.driver.services.recording import BatchRecorder
from runtime.driver.waits import Awaited, M, RuntimeService, waits


@explains_all_wrong_calls
class BatchesService(RuntimeService[M]):
    """Maps and evaluations, those that run and those that ran."""

    def begin(
        self, kind: BatchKind, name: str, *, total: int | None = None, thresholds: Mapping[str, float] | None = None
    ) -> BatchRecorder:
        """Tell that a batch begins, whose turns the program runs by itself. A map does so for itself.

        Args:
            kind: "map" or "evaluation".
            name: shown to those who read it.
            total: how many inputs or cases there are; None where that is not known.
            thresholds: of an evaluation, the least score of a case that passes, by metric.

        Returns:
            Its recorder: `note` says how far it is, `finish` or `leave` that it has ended.

        Raises:
            RequestError: `kind` is neither.
        """
        checked_choice("kind", kind, BATCH_KINDS)
        recorder = BatchRecorder(self._client, kind, name, total, thresholds)
        recorder.begin()
        return recorder

    @waits
    async def list(self, *, limit: int = 100) -> Sequence[BatchInfo]:
        """List batches, newest first. The newest 1,000 of an app are kept.

        Args:
            limit: at most so many.

        Raises:
            RequestError: an argument is wrong.
            StoreError: the store cannot be read, or is an object of your own that keeps no batches.
        """
        wanted = ListBatches(app=self._client.app_name, limit=checked_number("limit", limit))
        return (await self._client.session.ask(wanted)).batches

    @waits
    async def get(self, batch_id: str) -> BatchInfo | None:
        """Read a batch; None when it is not kept. Raises StoreError."""
        found = (await self._client.session.ask(ListBatches(app=self._client.app_name, batch=batch_id, limit=1))).batches
        return found[0] if batch_id and found else None

    @waits
    async def items(self, batch_id: str, *, limit: int = 100, after: int = -1) -> Sequence[BatchItem]:
        """List what is kept of a batch's items: the inputs of a map that have failed, 1,000 at most; all cases of an evaluation.

        Args:
            batch_id: the batch; of one that is not kept there is nothing.
            limit: at most so many.
            after: only those after this position: that of the last item of an earlier list, whose next page is wanted.

        Raises:
            RequestError: an argument is wrong.
            StoreError: see `list`.
        """
        place, most = checked_number("after", after, -1), checked_number("limit", limit)
        wanted = ListBatchItems(app=self._client.app_name, batch=batch_id, after=place, limit=most)
        return (await self._client.session.ask(wanted)).items


class BatchList(msgspec.Struct, frozen=True, kw_only=True):
    """Batches, newest first."""

    batches: Sequence[BatchInfo]


class BatchesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many of a list."""

    limit: Limit = 100


class BatchView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A batch, with a page of the items that are kept of it; `next`: the `after` of the next page."""

    batch: BatchInfo
    items: Sequence[BatchItem]
    next: int | None = None


class BatchQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which page of a batch's items; `after`: the `next` of the page before it."""

    limit: Limit = 100
    after: Annotated[int, msgspec.Meta(ge=-1, le=MAX_NUMBER)] = -1


async def list_batches(batches: BatchesService[Awaited], query: BatchesQuery) -> BatchList:
    """List maps and evaluations. For administrators."""
    return BatchList(batches=await batches.list(limit=query.limit))


async def get_batch(batches: BatchesService[Awaited], query: BatchQuery, batch: str) -> BatchView:
    """Read a map, with the inputs that have failed, or an evaluation, with its cases. For administrators."""
    info = await batches.get(batch)
    if info is None:
        raise RequestError(f"this app keeps no map or evaluation {batch!r}")
    # One more than asked for tells whether there is a next page.
    found = await batches.items(batch, limit=query.limit + 1, after=query.after)
    page = found[: query.limit]
    return BatchView(batch=info, items=page, next=page[-1].position if len(found) > query.limit else None)


OPERATIONS = [
    AppOperation("GET /v1/apps/{app}/batches", list_batches),
    AppOperation("GET /v1/apps/{app}/batches/{batch}", get_batch, refused=404),
]
"""What may be asked about maps and evaluations."""
