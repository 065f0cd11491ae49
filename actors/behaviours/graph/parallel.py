"""A node that runs once for each item of its input, side by side (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from actors.behaviours.graph.function_node import ended
from actors.behaviours.graph.results import EndedBelow, NodeEnd, NodeFailed, NodePlace, NodeResult, RunsBelow, Waits
from actors.definitions.graphs.parallel_worker import ParallelWorker
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.graph import NodeInfo
from actors.messages.json_types import JsonValue
from actors.messages.protocol.outcomes import Failed, Finished, Paused
from actors.rules.graph.answers import read_json
from actors.rules.graph.progress import Given


class ParallelRun:
    """The runs for all items: in their order, so many at a time as may.

    The first item that fails stops the others, but for a worker with partial results.
    """

    def __init__(self, runs: RunsBelow, worker: ParallelWorker, place: NodePlace) -> None:
        self._runs = runs
        self._worker = worker
        self._place = place
        self._outputs: dict[int, JsonValue] = {}
        self._waits = Waits()
        self._failed: NodeResult | None = None
        self._errors: dict[int, Failed] = {}

    async def run(self) -> NodeResult:
        """The list of the outputs, in the order of the items."""
        items = items_of(self._place.given)
        waiting = iter(range(len(items)))
        most = min(len(items), self._worker.max_parallel_workers or len(items))

        async def work() -> None:
            for index in waiting:
                # An item that waits for the user keeps its place among those that run.
                if not await self._run_item(index, items[index]):
                    return

        tasks = [asyncio.create_task(work()) for _ in range(most)]
        try:
            for task in asyncio.as_completed(tasks):
                await task
                if self._failed is not None:
                    break
        finally:
            for each in tasks:
                each.cancel()
        if self._failed is not None:
            await self._runs.stop(self._worker.node)
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            return self._failed
        if self._waits:
            return NodeEnd([], waits=self._waits.calls, awaits=self._waits.awaits)
        outputs = self._output(len(items))
        event = Event(branch=self._place.branch, node_info=self._place.info, output=outputs)
        return NodeEnd([ended(event)], outputs)

    def _output(self, items: int) -> JsonValue:
        results: list[JsonValue] = [self._outputs.get(index) for index in range(items)]
        if not self._worker.partial_results:
            return results
        errors: list[JsonValue] = [
            {"index": index, "error_code": failed.error_code, "error_message": failed.error_message}
            for index, failed in sorted(self._errors.items())
        ]
        return {"results": results, "errors": errors}

    async def _run_item(self, index: int, item: JsonValue) -> bool:
        """Run one item. Returns True when it has ended, and another one may begin."""
        label = f"{self._worker.name}@{index + 1}"
        branch = f"{self._place.branch}.{label}" if self._place.branch else label
        info = NodeInfo(path=f"{self._place.info.path}/{label}")
        place = NodePlace(f"{self._place.name}/{label}", self._worker.node, branch, item, info, self._place.since)
        ended = self._runs.ended_below(place.name)
        result: NodeResult = _result_of(ended) if ended is not None else await self._runs.run_below(place)
        match result:
            case NodeEnd() if result.is_waiting:
                self._waits.add(result.waits, result.awaits)
            case Paused():
                self._waits.add(result.call_ids, result.awaits)
            case NodeEnd() | Finished():
                self._outputs[index] = result.output
                return self._failed is None
            case NodeFailed() | Failed() if self._worker.partial_results:
                self._errors[index] = result.failed if isinstance(result, NodeFailed) else result
                return True
            case NodeFailed():
                # Its event is stored.
                self._failed = self._failed or NodeFailed(None, result.failed)
            case _:
                self._failed = self._failed or result
        return False


def _result_of(ended: EndedBelow) -> NodeResult:
    return NodeFailed(None, ended.failed) if ended.failed is not None else NodeEnd([], ended.output)


def items_of(given: Given) -> Sequence[JsonValue]:
    """The items of an input: of a list its own; else the input alone. The user may have written either as JSON."""
    value = given.text if isinstance(given, Content) else given
    if isinstance(given, Content):
        parsed = read_json(given.text)
        value = parsed if isinstance(parsed, list | dict) else value
    return cast("Sequence[JsonValue]", value) if isinstance(value, list) else [value]
