"""Whether an agent can live anywhere at all: what it asks for, against what the nodes have in total.

A node fits when it has as much of every resource, and every label is as the selector wants it: `value`, `!value`, `in(a, b)` or
`!in(a, b)`. What others on the node use at the moment does not count here: it may become free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.errors.suggestions import did_you_mean

_RAYS_OWN = ("CPU", "GPU", "memory", "object_store_memory", "node:", "ray.io/")
"""How the names begin that nobody has made up, and nobody means instead of another."""


class Node(NamedTuple):
    """A machine of the cluster: its name, its resources in total, and its labels."""

    name: str
    resources: Mapping[str, float]
    labels: Mapping[str, str]


class Needs(NamedTuple):
    """What an agent asks for: so much of resources by Ray's names (CPU, GPU, memory or custom ones), and labels by selectors."""

    resources: Mapping[str, float]
    labels: Mapping[str, str]

    def __str__(self) -> str:
        wanted = [*(_amount(name, number) for name, number in self.resources.items()), *map(_selector, self.labels.items())]
        return ", ".join(wanted) or "nothing"


def refusal(needs: Needs, nodes: Sequence[Node]) -> str | None:
    """Why no node can ever have the agent, and what the nearest one lacks; None when there is one that can."""
    if not nodes:
        return "and there is no node"
    nearest, lacking = min(((node, _lacking(needs, node)) for node in nodes), key=lambda each: len(each[1]))
    if not lacking:
        return None
    which = "the only node" if len(nodes) == 1 else f"the nearest of {len(nodes)} nodes"
    meant = _meant(needs.resources, (name for node in nodes for name in node.resources))
    meant = meant or _meant(needs.labels, (name for node in nodes for name in node.labels))
    return f"and {which}, {nearest.name}, has {' and '.join(lacking)}{meant and '.' + meant}"


def _lacking(needs: Needs, node: Node) -> list[str]:
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
    """True when a node may have that label, or none of the name, as far as a selector is concerned."""
    wanted = selector.removeprefix("!")
    inside = wanted.removeprefix("in(").removesuffix(")") if wanted.startswith("in(") else wanted
    is_one_of = label in [each.strip() for each in inside.split(",")]
    return is_one_of != selector.startswith("!")


def _meant(wanted: Iterable[str], known: Iterable[str]) -> str:
    there = {name for name in known if not name.startswith(_RAYS_OWN)}
    return next((hint for name in wanted if name not in {*there, *_RAYS_OWN} and (hint := did_you_mean(name, there))), "")


def _amount(name: str, number: float) -> str:
    return f"{number:g} {name}" if name != "memory" else f"{number / 1024**3:.3g} GiB of memory"


def _selector(label: tuple[str, str]) -> str:
    return f"label {label[0]}={label[1]}"
