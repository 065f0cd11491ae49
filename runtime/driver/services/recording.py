"""What a program tells of a map or an evaluation while it runs, so that others see how far it is.

Rules of this file:

- Nothing waits for it but the end of a batch, and no error of it ends one: the turns are what the program is for.
- At most one request a second is sent, and one at a time. What comes meanwhile goes with the next.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping

import msgspec

from actors.errors import RaygroveError
from actors.layers.batches import SaveBatch
from actors.layers.stores.batch import BatchInfo, BatchItem, BatchKind, BatchState
from actors.messages.event import now_s
from runtime.driver.engine_client import EngineClient

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
