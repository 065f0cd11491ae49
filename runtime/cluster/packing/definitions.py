"""Packs the definitions of a tree: `pack_tree` in the driver, `unpack` in the process of each agent.

A tree may have ten thousand agents, and most of them differ in text only. So each agent is split: its text and numbers make a
row of MessagePack; everything else (its class, tools, callbacks, model, plugins) is its code, pickled once for all agents that
share the same objects. All code of one agent is pickled together, so that objects which its tools and callbacks share stay one
object. The Runner passes rows and code on, and unpickles neither.

It pays: 10,000 agents with a tool each are packed in 0.04 s, to 150 kB; their AgentSpecs pickled one by one take 2 s and 50 MB.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from ray import cloudpickle

from actors.definitions.agents import BaseAgent, Placement, Plugin
from actors.definitions.tree import AgentSpec, AgentTree
from actors.definitions.tree.process_groups import ProcessGroup
from actors.interfaces.model import Model
from actors.messages.codec import decode, encode
from actors.messages.json_types import JsonObject
from actors.messages.limits import Limits
from actors.messages.topology import Topology
from actors.rules.routing.transfer import Target, transfer_targets
from runtime.cluster.packing.chunks import pickled
from runtime.cluster.packing.class_fields import fields_of, identity_of, is_copy_of, is_data
from runtime.cluster.packing.obstacles import keys_in
from runtime.cluster.packing.sources import install_sources, sources_of
from runtime.engine.deployment import ModelCheck

logger = logging.getLogger(__name__)

_ANYWHERE = Placement()
_NO_FIELDS: JsonObject = {}


class AgentRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one agent shares with no other.

    Attributes:
        code: the number of its code.
        data: fields of its definition that are data.
        placement: fields of its placement that are not the default.
    """

    code: int
    data: JsonObject
    placement: JsonObject = {}


class AgentPackage(msgspec.Struct, frozen=True, array_like=True):
    """All that the process of one agent is given.

    `code` is a pickled SharedCode; `sources` has the lines of it that are in no file, by the file names of its functions; the
    rest is as in AgentSpec.
    """

    row: AgentRow
    code: bytes
    children: tuple[str, ...]
    targets: tuple[Target, ...]
    tool_agents: tuple[str, ...]
    sources: dict[str, str] = {}


@dataclass(frozen=True)
class SharedCode:
    """What agents share, pickled as a whole.

    Attributes:
        kind: the class of their definitions.
        fields: fields of their definitions that are not data.
        extra, private: pydantic's extra fields and private attributes.
        definition: the definition itself, instead of its fields, when its class pickles in a way of its own.
    """

    kind: type[BaseAgent]
    fields: Mapping[str, Any]
    extra: Any
    private: Any
    definition: BaseAgent | None
    global_instruction: Any
    model: str | Model
    plugins: tuple[Plugin, ...]
    limits: Limits

    def parts(self) -> Mapping[str, object]:
        """What it is made of, by the names that users know."""
        own = {} if self.definition is None else {"definition": self.definition}
        also = {"model": self.model, "global_instruction": self.global_instruction, "plugins": self.plugins}
        return {**self.fields, **also, **own, "private attributes": self.private, "extra fields": self.extra}


class PackedDefinitions(Mapping[str, bytes]):
    """The definitions of a tree, as the Runner keeps them: an encoded AgentPackage by agent, for `unpack`.

    Args:
        count: how many agents there are.
        rows: encoded AgentRows by agent.
        codes: pickled SharedCodes.
        topology: the parent map, encoded.
        sources: of each of the codes, see AgentPackage.
    """

    def __init__(
        self, count: int, rows: bytes, codes: Sequence[bytes], topology: bytes, sources: Sequence[dict[str, str]]
    ) -> None:
        self._count = count
        self._sources = sources
        self._raw_rows = rows
        self.codes = codes
        self._raw_topology = topology

    def __reduce__(self) -> tuple[object, ...]:
        return PackedDefinitions, (self._count, self._raw_rows, self.codes, self._raw_topology, self._sources)

    @cached_property
    def _rows(self) -> dict[str, msgspec.Raw]:
        # Views into the bytes above, not copies. The first activation waits for this, not the start of the Runner.
        return decode(self._raw_rows, dict[str, msgspec.Raw])

    @cached_property
    def _topology(self) -> Topology:
        return decode(self._raw_topology, Topology)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, agent: object) -> bool:
        return agent in self._rows

    def __getitem__(self, agent: str) -> bytes:
        node, row = self._topology[agent], self._row(agent)
        targets = transfer_targets(self._topology, agent)
        code, sources = self.codes[row.code], self._sources[row.code]
        return encode(AgentPackage(row, code, node.children, targets, node.tool_agents, sources))

    def _row(self, agent: str) -> AgentRow:
        return decode(bytes(self._rows[agent]), AgentRow)


@dataclass(frozen=True)
class PackedTree:
    """What a Runner needs to activate agents; it travels from the driver to the Runner.

    Attributes:
        definitions: of all agents.
        process_groups: of the agents that cannot live in any process.
        modules: slow imports to preload where agents will live.
        models: what tells whether the models of agents can be used, by agent.
    """

    definitions: PackedDefinitions
    process_groups: Mapping[str, ProcessGroup]
    modules: Sequence[str]
    models: Mapping[str, ModelCheck]


def pack_tree(tree: AgentTree, replace_model: Callable[[str | Model], str | Model]) -> PackedDefinitions:
    """The definitions of a tree, ready to travel.

    Args:
        replace_model: gives what travels instead of a model.

    Raises:
        DefinitionError: an agent cannot travel to its actor; the message names it.
    """
    packer = _Packer(tree, replace_model)
    rows = {agent.name: packer.row(agent) for agent in tree}
    return PackedDefinitions(len(rows), encode(rows), packer.codes, encode(tree.topology), sources_of(packer.codes))


def unpack(packed: bytes) -> AgentSpec:
    """The spec of an agent out of its AgentPackage. It imports user modules, and may raise whatever they raise."""
    package = decode(packed, AgentPackage)
    install_sources(package.sources)
    code: SharedCode = cloudpickle.loads(package.code)
    return AgentSpec(
        definition=code.definition or _definition(code, package.row),
        children=package.children,
        targets=package.targets,
        tool_agents=package.tool_agents,
        global_instruction=code.global_instruction,
        model=code.model,
        plugins=code.plugins,
        limits=code.limits,
    )


class _Packer:
    """Splits agents into rows and codes.

    Attributes:
        codes: pickled SharedCodes, by number.
    """

    def __init__(self, tree: AgentTree, replace_model: Callable[[str | Model], str | Model]) -> None:
        self.codes: list[bytes] = []
        self._tree = tree
        self._models = tree.models
        self._replace_model = replace_model
        self._numbers: dict[tuple[Hashable, ...], int] = {}
        self._warned: set[int] = set()

    def row(self, agent: BaseAgent) -> AgentRow:
        """The row of an agent. A start waits for ten thousand of them, so fields with the default object are not looked at."""
        fields, values, name = fields_of(type(agent)), agent.__dict__, agent.name
        model, global_instruction = self._models.get(name, ""), self._tree.global_instruction(name)
        data: JsonObject = {}
        code: list[str] = []
        key: list[Hashable] = [type(agent), identity_of(model), identity_of(global_instruction)]
        if fields.is_opaque:
            # Nothing of it can be left out, so it shares its code with no other agent.
            key.append(id(agent))
        else:
            for field in fields.changed(values):
                value = values[field]
                if (type(value) is str and value.isascii()) or is_data(value):
                    data[field] = value
                elif not is_copy_of(value, fields.defaults.get(field)):
                    code.append(field)
                    key += (field, identity_of(value))
            if agent.__pydantic_extra__ is not None or agent.__pydantic_private__ is not None:
                key.append(id(agent))
        number = self._numbers.get(shared := tuple(key))
        if number is None:
            number = self._numbers[shared] = len(self.codes)
            shared_code = self._code(agent, code)
            self.codes.append(pickled(f"agent {name!r} cannot travel to its actor", shared_code, shared_code.parts))
            self._warn_of_keys(name, shared_code.model)
        placement = values["placement"]
        # Ten times as fast as pydantic compares, and most agents may live anywhere.
        is_anywhere = placement.__dict__ == _ANYWHERE.__dict__
        return AgentRow(number, data, _NO_FIELDS if is_anywhere else placement.model_dump(exclude_defaults=True))

    def _warn_of_keys(self, agent: str, model: str | Model) -> None:
        if isinstance(model, str) or id(model) in self._warned:
            return
        self._warned.add(id(model))
        for name in keys_in(model):
            logger.warning(
                "agent %r: model.%s looks like a key, and travels to the cluster with the definition: "
                "read it from the environment where the model is used, and give the variable with Settings(env=...)",
                agent,
                name,
            )

    def _code(self, agent: BaseAgent, fields: Sequence[str]) -> SharedCode:
        tree = self._tree
        alone = agent.alone()
        return SharedCode(
            kind=type(agent),
            fields={name: alone.__dict__[name] for name in fields},
            extra=agent.__pydantic_extra__,
            private=agent.__pydantic_private__,
            definition=alone if fields_of(type(agent)).is_opaque else None,
            global_instruction=tree.global_instruction(agent.name),
            model=self._replace_model(tree.model(agent.name)),
            plugins=tree.plugins,
            limits=tree.limits,
        )


def _definition(code: SharedCode, row: AgentRow) -> BaseAgent:
    """A definition without its children. Its fields were checked when the user created it, and are not checked again."""
    defaults = fields_of(code.kind).defaults
    values = {**defaults, "sub_agents": (), "placement": Placement(**row.placement), **code.fields, **row.data}
    definition = code.kind.__new__(code.kind)
    definition.__setstate__(
        {
            "__dict__": values,
            "__pydantic_fields_set__": {"name", *code.fields, *row.data},
            "__pydantic_extra__": code.extra,
            "__pydantic_private__": code.private,
        }
    )
    return definition
