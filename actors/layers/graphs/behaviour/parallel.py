"""A node that runs once for each item of its input, side by side (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from actors.layers.graphs.behaviour.function_node import ended
from actors.layers.graphs.behaviour.node_attempt import NodeEnd, NodeFailed, NodePlace, NodeResult, RunsBelow
from actors.layers.graphs.definitions.checks import misfit
from actors.layers.graphs.definitions.nodes import ParallelWorker
from actors.layers.graphs.rules.progress import Given
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.graph import NodeInfo
from actors.messages.json_types import JsonValue
from actors.messages.protocol.runs import Failed
from actors.rules.checks.user_message import read_json


class ParallelRun:
    """The runs for all items: in their order, so many at a time as may.

    The first item that fails stops the others, but for a worker with partial results. Once an item waits for the user none
    begins any more. What the log has of items counts in its order, as when it was stored: an item that still waits for the user
    keeps others from beginning as soon as all before it have ended.
    """

    def __init__(self, runs: RunsBelow, worker: ParallelWorker, place: NodePlace) -> None:
        self._runs = runs
        self._worker = worker
        self._place = place
        self._items = items_of(place.given)
        self._next = 0
        self._most = worker.max_parallel_workers or len(self._items)
        self._tasks: dict[asyncio.Task[NodeResult], int] = {}
        self._done: list[asyncio.Task[NodeResult]] = []
        self._has_done = asyncio.Event()
        # Items that have begun, of which nothing has to be run.
        self._known: dict[int, NodeResult] = {}
        # Those that have said or asked something before, in that order, until they are taken in.
        self._order: dict[int, None] = {}
        self._outputs: dict[int, JsonValue] = {}
        self._waits: list[str] = []
        self._failed: NodeResult | None = None
        self._errors: dict[int, Failed] = {}

    async def run(self) -> NodeResult:
        """The list of the outputs, in the order of the items."""
        said = {index: self._runs.known(self._item(index).name).seq for index in range(len(self._items))}
        self._order = dict.fromkeys(sorted((index for index, seq in said.items() if seq), key=said.__getitem__))
        try:
            self._go_on()
            while self._tasks and self._failed is None:
                await self._has_done.wait()
                self._has_done.clear()
                done, self._done = self._done, []
                for task in sorted(done, key=self._tasks.__getitem__):
                    self._take_in(self._tasks.pop(task), task.result())
                self._go_on()
        finally:
            for each in self._tasks:
                each.cancel()
        if self._failed is not None:
            await self._runs.stop(self._worker.node)
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*self._tasks, return_exceptions=True)
            return self._failed
        if self._waits:
            return NodeEnd([], waits=self._waits)
        outputs = self._output(len(self._items))
        event = Event(branch=self._place.branch, node_info=self._place.info, output=outputs)
        return NodeEnd([ended(event)], outputs)

    def _go_on(self) -> None:
        """Begin what may begin, and take in what is known, one after the other."""
        self._begin()
        while (index := self._next_known()) is not None:
            self._take_in(index, self._known.pop(index))
            self._begin()

    def _begin(self) -> None:
        while self._failed is None and not self._waits and self._next < len(self._items):
            if len(self._tasks) + len(self._known) >= self._most:
                return
            place = self._item(self._next)
            known = self._runs.known(place.name).result
            if (error := misfit(place.node, place.given)) is not None:
                self._take_in(self._next, self._runs.refused(place, error))
            elif known is not None:
                self._known[self._next] = known
            else:
                task = asyncio.create_task(self._runs.run_below(place))
                self._tasks[task] = self._next
                task.add_done_callback(self._note_done)
            self._next += 1

    def _note_done(self, task: asyncio.Task[NodeResult]) -> None:
        self._done.append(task)
        self._has_done.set()

    def _next_known(self) -> int | None:
        """The item of which the log tells next; None: there is none, or one before it runs."""
        first = next((index for index in self._known if index not in self._order), None)
        if first is None:
            first = next((index for index in self._order if index < self._next), None)
        return first if first in self._known else None

    def _output(self, items: int) -> JsonValue:
        results: list[JsonValue] = [self._outputs.get(index) for index in range(items)]
        if not self._worker.partial_results:
            return results
        errors: list[JsonValue] = [
            {"index": index, "error_code": failed.error_code, "error_message": failed.error_message}
            for index, failed in sorted(self._errors.items())
        ]
        return {"results": results, "errors": errors}

    def _item(self, index: int) -> NodePlace:
        label = f"{self._worker.name}@{index + 1}"
        branch = f"{self._place.branch}.{label}" if self._place.branch else label
        info = NodeInfo(path=f"{self._place.info.path}/{label}")
        return NodePlace(f"{self._place.name}/{label}", self._worker.node, branch, self._items[index], info, self._place.since)

    def _take_in(self, index: int, result: NodeResult) -> None:
        self._order.pop(index, None)
        match result:
            case NodeEnd() if result.is_waiting:
                self._waits.extend(result.waits)
            case NodeEnd():
                self._outputs[index] = result.output
            case NodeFailed() if self._worker.partial_results:
                self._errors[index] = result.failed
            case _:
                self._failed = self._failed or result


def items_of(given: Given) -> Sequence[JsonValue]:
    """The items of an input: of a list its own; else the input alone. The user may have written either as JSON."""
    value = given.text if isinstance(given, Content) else given
    if isinstance(given, Content):
        parsed = read_json(given.text)
        value = parsed if isinstance(parsed, list | dict) else value
    return cast("Sequence[JsonValue]", value) if isinstance(value, list) else [value]
