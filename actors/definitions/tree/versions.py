"""The version of a tree: its fingerprints, agent by agent, and the name made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import compress
from operator import is_not, itemgetter
from typing import NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.llm import Instruction, LlmAgent
from actors.definitions.agents.plugin import Plugin
from actors.definitions.tree.fingerprints import Fingerprints, combined
from actors.definitions.tree.recording import Recording
from actors.interfaces.model import Model
from actors.messages.limits import Limits
from actors.messages.operating.release import this_version
from actors.messages.operating.versions import TreeVersion
from actors.messages.topology import LLM, AgentNode, Topology

_NO_MENU = combined(())
_NO_NAMES = b"\0"

ID_LETTERS = 8
"""Of a version's name: two of a million differ but once in four thousand times, and a deployment has a few."""


class Defined(NamedTuple):
    """An agent of a tree, with what it inherits."""

    agent: BaseAgent
    model: str | Model
    global_instruction: Instruction


def version_of(
    topology: Topology, agents: Iterable[Defined], plugins: Sequence[Plugin], recording: Recording, limits: Limits
) -> TreeVersion:
    """The version of a tree: one name stands for equal requests to models, also after a deployment was started again.

    Args:
        agents: in the order of the topology's nodes.
        limits: how many transfer targets a model gets by name counts, too.
    """
    prints, nodes = Fingerprints(), list(topology.nodes)
    shared = combined([prints.of(plugins), prints.of(recording.mask)])
    faces = {node.name: combined([node.name.encode(), node.description.encode("utf-8", "surrogatepass")]) for node in nodes}
    menus = {node.name: combined([faces[child] for child in node.children]) for node in nodes if node.children}
    definitions: list[bytes] = []
    actors: list[bytes] = []
    for node, defined in zip(nodes, agents, strict=True):
        definitions.append(own := _of_definition(prints, defined, node))
        actors.append(combined([own, shared, prints.of(defined.global_instruction), *_neighbours(node, faces, menus)]))
    # Another release may ask models in another way.
    around = [this_version().encode(), str(limits.max_listed_targets).encode()]
    name, is_masked = combined([*actors, *around]).hex()[:ID_LETTERS], recording.mask is not None
    return TreeVersion(name, topology, b"".join(definitions), b"".join(actors), len(plugins), is_masked)


def _of_definition(prints: Fingerprints, defined: Defined, node: AgentNode) -> bytes:
    """The fingerprint of an agent without the agents below it."""
    agent = defined.agent
    values, parts = agent.__dict__, [prints.of(type(agent)), (node.parent or "").encode(), prints.of(defined.model)]
    for name, value, default in _fields(type(agent)).changed(values):
        # Ten thousand agents have ten thousand copies of some defaults: pydantic copies models.
        if default is None or type(value) is not type(default) or value.__dict__ != default.__dict__:
            parts += (name, prints.of(value))
    for more in (agent.__pydantic_extra__, agent.__pydantic_private__):
        if more:
            parts.append(prints.of(more))
    return combined(parts)


def _neighbours(node: AgentNode, faces: dict[str, bytes], menus: dict[str, bytes]) -> list[bytes]:
    """The part of others that an actor is given: names of those that it runs, descriptions of those that it may choose."""
    runs = node.children or node.tool_agents
    names = "\0".join((*node.children, "", *node.tool_agents, "", *node.delegates)).encode() if runs else _NO_NAMES
    if node.kind != LLM:
        return [names]
    menu, parent = menus.get(node.name, _NO_MENU), node.parent
    return [names, menu] if parent is None else [names, menu, faces[parent], menus[parent]]


class _Fields:
    """The fields of a class of definitions with their defaults, without those that stand elsewhere."""

    def __init__(self, kind: type[BaseAgent]) -> None:
        left_out = {"name", "sub_agents"} | ({"model"} if issubclass(kind, LlmAgent) else set())
        found = {name: field.default for name, field in kind.model_fields.items() if name not in left_out}
        self._defaults = [None if default is PydanticUndefined else default for default in found.values()]
        self._names = [name.encode() for name in found]
        self._models = [default if isinstance(default, BaseModel) else None for default in self._defaults]
        self._values = itemgetter(*found)

    def changed(self, values: Mapping[str, object]) -> Iterable[tuple[bytes, object, BaseModel | None]]:
        """The fields whose value is not the default object itself: their names, values, and defaults that are models.

        Its loop is in C: agents are many.
        """
        given = self._values(values)
        return compress(zip(self._names, given, self._models, strict=True), map(is_not, given, self._defaults))


_fields = cache(_Fields)
