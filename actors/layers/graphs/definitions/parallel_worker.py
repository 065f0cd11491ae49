"""A node that runs another one for each item of a list, and what it gives where some of these runs may fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from actors.errors import WorkflowConfigurationError
from actors.errors.hints import explains_all_wrong_calls, explains_wrong_calls


@explains_all_wrong_calls
@dataclass(frozen=True)
class ItemError:
    """Why the run for one item has failed.

    Attributes:
        index: of the item in the list, from 0.
        error_code: the name of the error's class.
        error_message: its text.
    """

    index: int
    error_code: str
    error_message: str


@explains_all_wrong_calls
@dataclass(frozen=True)
class PartialResults:
    """The output of a parallel worker with `partial_results`.

    Attributes:
        results: the outputs in the order of the items; None for those that failed.
        errors: of the items that failed, in their order.
    """

    results: list[Any]
    errors: list[ItemError] = field(default_factory=list)


class ParallelWorker:
    """A node that runs another one for each item of its input, which is a list; its output is the list of theirs.

    Args:
        node: an agent, a TriedAgent, or a FunctionNode. With a `retry_config` of its own it is tried again item by item.
        max_parallel_workers: so many items at a time; default None: all.
        partial_results: an item that fails stops neither the others nor the graph, and the output is a PartialResults; False,
            the default: the first item that fails does.

    Raises:
        WorkflowConfigurationError: `max_parallel_workers` is less than 1.
    """

    @explains_wrong_calls
    def __init__(self, node: Any, *, max_parallel_workers: int | None = None, partial_results: bool = False) -> None:
        if max_parallel_workers is not None and max_parallel_workers < 1:
            raise WorkflowConfigurationError(
                f"node {node.name!r}: max_parallel_workers is at least 1, not {max_parallel_workers}"
            )
        self.node = node
        self.name: str = node.name
        self.max_parallel_workers = max_parallel_workers
        self.partial_results = partial_results

    def of(self, node: Any) -> ParallelWorker:
        """The same for another node."""
        return ParallelWorker(node, max_parallel_workers=self.max_parallel_workers, partial_results=self.partial_results)

    def __repr__(self) -> str:
        return f"ParallelWorker({self.name})"
