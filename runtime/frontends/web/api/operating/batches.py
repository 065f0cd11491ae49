"""Maps and evaluations: those that run, and those that ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from actors.messages.operating.batch import BatchInfo, BatchItem
from runtime.frontends.web.api.sessions import Limit
from runtime.frontends.web.ids import MAX_NUMBER
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import HttpError


class BatchList(msgspec.Struct, frozen=True, kw_only=True):
    """Batches, the one that began last first."""

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


async def list_batches(call: Call) -> BatchList:
    """List maps and evaluations. For administrators."""
    call.principal.check_admin()
    return BatchList(batches=await call.runtime.aio.batches.list(limit=call.query(BatchesQuery).limit))


async def get_batch(call: Call) -> BatchView:
    """Read a map, with the inputs that have failed, or an evaluation, with its cases. For administrators."""
    call.principal.check_admin()
    query, batch_id, batches = call.query(BatchQuery), call.path("batch"), call.runtime.aio.batches
    batch = await batches.get(batch_id)
    if batch is None:
        raise HttpError(404, f"app {call.runtime.app_name!r} keeps no map or evaluation {batch_id!r}")
    # One more than asked for tells whether there is a next page.
    found = await batches.items(batch_id, limit=query.limit + 1, after=query.after)
    page = found[: query.limit]
    return BatchView(batch=batch, items=page, next=page[-1].position if len(found) > query.limit else None)


_BATCHES = "/v1/apps/{app}/batches"

OPERATIONS = [
    HttpOperation("GET", _BATCHES, list_batches, query=BatchesQuery, gives=BatchList, users="none"),
    HttpOperation("GET", f"{_BATCHES}/{{batch}}", get_batch, query=BatchQuery, gives=BatchView, users="none"),
]
"""What can be asked about maps and evaluations."""
