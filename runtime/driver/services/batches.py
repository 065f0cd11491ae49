"""Maps and evaluations: `rt.batches` and `rt.aio.batches`, and `/v1/apps/{app}/batches`.

Rules for what a program tells of one while it runs, so that others see how far it is:

- Nothing waits for it but the end of a batch, and no error of it ends one: the turns are what the program is for.
- At most one request a second is sent, and one at a time. What comes meanwhile goes with the next.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from actors.errors import RaygroveError, RequestError
from actors.errors.hints import explains_all_wrong_calls
from actors.layers.batches import ListBatches, ListBatchItems, SaveBatch
from actors.layers.stores.batch import BATCH_KINDS, BatchInfo, BatchItem, BatchKind, BatchState
from actors.messages.event import now_s
from runtime.driver.arguments import checked_choice, checked_number
from runtime.driver.engine_client import EngineClient
from runtime.driver.operation import MAX_NUMBER, AppOperation, Limit
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

EVERY_S = 1.0
"""Time between two requests."""

MOST_ITEMS = 1_000
"""Items that are kept of a map, the first that fail. Of an evaluation all cases are."""

MOST_AT_ONCE = 500
"""Items in one request."""

MOST_NAME = 200
"""Characters of an input that are kept."""

MOST_ERROR = 2_000
"""Characters of an error that are kept."""

_log = logging.getLogger(__name__)


class BatchRecorder:
    """Tells of one batch. Its methods are called in one thread, or on one event loop.

    Args:
        client: of the deployment that runs the turns.
        kind: a map, or an evaluation.
        total: how many inputs or cases there are; None where that is not known.
        thresholds: the least scores of a case that passes, by metric.
    """

    def __init__(
        self, client: EngineClient, kind: BatchKind, name: str, total: int | None, thresholds: Mapping[str, float] | None = None
    ) -> None:
        began_s = now_s()
        self._client = client
        self._info = BatchInfo(
            id=uuid.uuid4().hex,
            kind=kind,
            name=name,
            begun_s=began_s,
            updated_s=began_s,
            total=total,
            thresholds=dict(thresholds or {}),
        )
        self._items: list[BatchItem] = []
        self._added = 0
        self._is_waiting = False
        self._is_off = False
        self._saved_s = -EVERY_S
        self._saving = asyncio.Lock()

    @property
    def id(self) -> str:
        """The id of the batch."""
        return self._info.id

    def begin(self) -> None:
        """Tell that it has begun."""
        self._save_soon()

    def note(
        self,
        *,
        done: int,
        failed: int,
        repeated: int = 0,
        scores: Mapping[str, float] | None = None,
        item: BatchItem | None = None,
    ) -> None:
        """Tell how far it is.

        Args:
            done, failed, repeated, scores: see BatchInfo.
            item: one that is kept, as far as there may be more. Its position is given here.
        """
        counts = {"done": done, "failed": failed, "repeated": repeated, "updated_s": now_s()}
        self._info = msgspec.structs.replace(self._info, **counts, scores=dict(scores or {}))
        if item is not None and (self._info.kind == "evaluation" or self._added < MOST_ITEMS):
            texts = {"name": _writable(item.name[:MOST_NAME]), "error": _writable(item.error[:MOST_ERROR])}
            self._items.append(msgspec.structs.replace(item, position=self._added, **texts))
            self._added += 1
        self._save_soon()

    def leave(self) -> None:
        """Tell that its program has left it before its end, without waiting."""
        self._end("stopped")
        self._is_waiting = False
        self._save_soon()

    def finish(self) -> None:
        """Tell that it has ended, and wait until that is stored. Raises RuntimeClosedError."""
        self._end("finished")
        self._client.run(self._save())

    async def finish_async(self) -> None:
        """As `finish`, for a caller on an event loop. Raises RuntimeClosedError."""
        self._end("finished")
        await self._client.run_async(self._save())

    def _end(self, state: BatchState) -> None:
        ended_s = now_s()
        self._info = msgspec.structs.replace(self._info, state=state, updated_s=ended_s, ended_s=ended_s)

    def _save_soon(self) -> None:
        if self._is_waiting or self._is_off:
            return
        self._is_waiting = True
        try:
            self._client.begin_call(self._save_when_due(), lambda _: None)
        except RaygroveError as error:
            _log.debug("batch %s is not told of: %s", self._info.name, error)

    async def _save_when_due(self) -> None:
        if self._info.state == "running":
            await asyncio.sleep(self._saved_s + EVERY_S - time.monotonic())
        # What is noted from here on goes with the next request.
        self._is_waiting = False
        await self._save()

    async def _save(self) -> None:
        async with self._saving:
            while not self._is_off:
                self._saved_s = time.monotonic()
                info, items = self._info, self._items[:MOST_AT_ONCE]
                try:
                    await self._client.session.ask(SaveBatch(app=self._client.app_name, batch=info, items=items))
                except RaygroveError as error:
                    # A store of the user's own may keep no batches; one that is away may come back.
                    _log.debug("batch %s is not told of: %s", info.name, error)
                    return
                del self._items[: len(items)]
                if not self._items:
                    return


def _writable(text: str) -> str:
    """A text without halves of surrogate pairs, which have no bytes."""
    return text.encode(errors="replace").decode()
