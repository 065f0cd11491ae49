"""The version of a tree: its fingerprints, agent by agent, and the name made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import compress
from operator import is_not, itemgetter
from typing import NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.callbacks import Plugin
from actors.definitions.agents.llm import Instruction, LlmAgent
from actors.interfaces.model import Model
from actors.layers.recording.messages import Recording
from actors.layers.trees.fingerprints import Fingerprints, combined
from actors.layers.updates.versions import TreeVersion
from actors.messages.config import Limits
from actors.messages.topology import LLM, AgentNode, Topology

_NO_MENU = combined(())
_NO_NAMES = "\0"

ID_LETTERS = 8
"""Of a version's name: two of a million differ but once in four thousand times, and a deployment has a few."""


class Defined(NamedTuple):
    """An agent of a tree, with what it inherits."""

    agent: BaseAgent
    model: str | Model
    global_instruction: Instruction


def version_of(
    topology: Topology,
    agents: Iterable[Defined],
    families: Iterable[tuple[BaseAgent, Sequence[BaseAgent]]],
    plugins: Sequence[Plugin],
    recording: Recording,
    limits: Limits,
) -> TreeVersion:
    """The version of a tree: one name stands for equal requests to models, also after a deployment was started again.

    Args:
        agents: in the order of the topology's nodes.
        families: the agents that have others below them, each with those.
        limits: how many transfer targets a model gets by name counts, too.
    """
    prints = Fingerprints()
    shared = combined([prints.of(plugins), prints.of(recording.mask)])
    menus = {agent.name: _Menu.of(agent, children) for agent, children in families}
    definitions: list[bytes] = []
    actors: list[bytes] = []
    for node, defined in zip(topology.nodes, agents, strict=True):
        definitions.append(own := _of_definition(prints, defined, node))
        actors.append(combined([own, shared, prints.of(defined.global_instruction), *_neighbours(node, menus)]))
    # Another release may ask models in another way.
    around = [this_version(), str(limits.max_listed_targets)]
    name, is_masked = combined([*actors, *around]).hex()[:ID_LETTERS], recording.mask is not None
    return TreeVersion(name, topology, b"".join(definitions), b"".join(actors), len(plugins), is_masked)


class _Menu(NamedTuple):
    """The fingerprints of the name and description of an agent with others below it, and of theirs."""

    face: bytes
    below: bytes

    @classmethod
    def of(cls, agent: BaseAgent, children: Iterable[BaseAgent]) -> _Menu:
        """That of an agent and those right below it."""
        told = [text for child in children for text in (child.name, child.description)]
        return cls(combined([agent.name, agent.description]), combined(told))


def _of_definition(prints: Fingerprints, defined: Defined, node: AgentNode) -> bytes:
    """The fingerprint of an agent without the agents below it."""
    agent = defined.agent
    kind, values = type(agent), agent.__dict__
    fields, parts = _fields(kind), [prints.of(kind), node.parent or "", prints.of(defined.model)]
    for name in fields.changed(values):
        value, default = values[name], fields.models.get(name)
        # Ten thousand agents have ten thousand copies of some defaults: pydantic copies models.
        if default is None or type(value) is not type(default) or value.__dict__ != default.__dict__:
            parts += (name, prints.of(value))
    for more in (agent.__pydantic_extra__, agent.__pydantic_private__):
        if more:
            parts.append(prints.of(more))
    return combined(parts)


def _neighbours(node: AgentNode, menus: Mapping[str, _Menu]) -> list[bytes | str]:
    """The part of others that an actor is given: names of those that it runs, descriptions of those that it may choose."""
    runs = node.children or node.tool_agents
    names = "\0".join((*node.children, "", *node.tool_agents, "", *node.delegates)) if runs else _NO_NAMES
    if node.kind != LLM:
        return [names]
    own, parent = menus.get(node.name), node.parent
    menu = own.below if own is not None else _NO_MENU
    return [names, menu] if parent is None else [names, menu, *menus[parent]]


class _Fields:
    """The fields of a class of definitions with their defaults, without those that stand elsewhere."""

    def __init__(self, kind: type[BaseAgent]) -> None:
        left_out = {"name", "sub_agents"} | ({"model"} if issubclass(kind, LlmAgent) else set())
        found = {name: field.default for name, field in kind.model_fields.items() if name not in left_out}
        defaults = {name: None if default is PydanticUndefined else default for name, default in found.items()}
        self._names = tuple(defaults)
        self._defaults = tuple(defaults.values())
        self._values = itemgetter(*defaults)
        self.models = {name: default for name, default in defaults.items() if isinstance(default, BaseModel)}

    def changed(self, values: Mapping[str, object]) -> Iterable[str]:
        """The fields whose value is not the default object itself. Its loop is in C: agents are many."""
        return compress(self._names, map(is_not, self._values(values), self._defaults))


_fields = cache(_Fields)

UNKNOWN_RELEASE = "of an unknown version"
"""Stands for a release when raygrove runs from its sources without being installed."""


@cache
def this_version() -> str:
    """The version number of the package, or `UNKNOWN_RELEASE`."""
    try:
        return version("raygrove")
    except PackageNotFoundError:
        return UNKNOWN_RELEASE
