"""Whether any node of the cluster can ever have an agent: its needs against the nodes' totals.

A node fits when it has enough of every resource, and every label is as the selector wants it: `value`, `!value`, `in(a, b)` or
`!in(a, b)`. Resources that others are using at the moment count too, since they may become free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.errors.suggestions import did_you_mean
from runtime.cluster.rules.nodes import Node

_RAY_NAMES = ("CPU", "GPU", "memory", "object_store_memory", "node:", "ray.io/")
"""Names, or beginnings of names, that Ray itself gives: they are no misspellings, and are not suggested."""


class Needs(NamedTuple):
    """What an agent asks for: amounts by Ray's names of resources (CPU, GPU, memory in bytes, custom), and label selectors."""

    resources: Mapping[str, float]
    labels: Mapping[str, str]

    def __str__(self) -> str:
        wanted = [*(_amount(name, number) for name, number in self.resources.items()), *map(_selector, self.labels.items())]
        return ", ".join(wanted) or "nothing"


def refusal(needs: Needs, nodes: Sequence[Node]) -> str | None:
    """Why no node can ever have the agent, with what the nearest one lacks; None when a node can."""
    if not nodes:
        return "and there is no node"
    nearest, lacking = min(((node, _lacking(needs, node)) for node in nodes), key=lambda each: len(each[1]))
    if not lacking:
        return None
    which = "the only node" if len(nodes) == 1 else f"the nearest of {len(nodes)} nodes"
    hint = _suggestion(needs.resources, (name for node in nodes for name in node.resources))
    hint = hint or _suggestion(needs.labels, (name for node in nodes for name in node.labels))
    return f"and {which}, {nearest.name}, has {' and '.join(lacking)}{hint and '.' + hint}"


def fits(needs: Needs, node: Node) -> bool:
    """True when a node has all that is asked for, in total."""
    return not _lacking(needs, node)


def _lacking(needs: Needs, node: Node) -> list[str]:
    """For each need that a node does not meet, in words, what it has instead."""
    resources = [
        f"{_amount(name, node.resources[name])} in all" if name in node.resources else f"no {name}"
        for name, number in needs.resources.items()
        if number and number > node.resources.get(name, 0)
    ]
    labels = [
        f"label {name}={node.labels[name]}" if name in node.labels else f"no label {name}"
        for name, selector in needs.labels.items()
        if not selects(selector, node.labels.get(name))
    ]
    return [*resources, *labels]


def selects(selector: str, label: str | None) -> bool:
    """True when a selector admits a node with that label; None stands for a node without a label of the name."""
    wanted = selector.removeprefix("!")
    inside = wanted.removeprefix("in(").removesuffix(")") if wanted.startswith("in(") else wanted
    is_one_of = label in [each.strip() for each in inside.split(",")]
    return is_one_of != selector.startswith("!")


def _suggestion(wanted: Iterable[str], known: Iterable[str]) -> str:
    """A hint for the first unknown name that resembles a known one; "" without one."""
    custom = {name for name in known if not name.startswith(_RAY_NAMES)}
    unknown = (name for name in wanted if name not in {*custom, *_RAY_NAMES})
    return next((hint for name in unknown if (hint := did_you_mean(name, custom))), "")


def _amount(name: str, number: float) -> str:
    return f"{number:g} {name}" if name != "memory" else f"{number / 1024**3:.3g} GiB of memory"


def _selector(label: tuple[str, str]) -> str:
    return f"label {label[0]}={label[1]}"
