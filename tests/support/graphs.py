"""Nodes for graphs of tests, and short ways to look at what graphs have done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors import Event, FunctionNode


def ends(events: Sequence[Event]) -> dict[str, Any]:
    """Output by path, of each node that gave one."""
    return {event.node_info.path: event.output for event in events if event.node_info is not None and event.output is not None}


def texts(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if event.text]


def double(node_input: int) -> int:
    return 2 * node_input


def add_one(node_input: int) -> int:
    return node_input + 1


def named_node(name: str) -> FunctionNode:
    def call(node_input: Any) -> str:
        return f"{name}({getattr(node_input, 'text', node_input)})"

    return FunctionNode(call, name=name)
