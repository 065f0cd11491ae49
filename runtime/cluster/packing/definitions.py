"""Packs the definitions of a tree: `pack_tree` in the driver, `unpack` in the process of each agent.

A tree may have ten thousand agents, and most of them differ in text only. So each agent is split: its text and numbers make a
row of MessagePack; everything else (its class, tools, callbacks, model, plugins) is its code, pickled once for all agents that
share the same objects. Its model is pickled on top of that, since models differ most. All code of one agent is pickled so that
objects which its tools, callbacks and model share stay one object. The Runner passes rows and code on, and unpickles neither.

It pays: 10,000 agents with a tool each are packed in 0.04 s, to 150 kB; their AgentSpecs pickled one by one take 2 s and 50 MB.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from actors.definitions.agents import BaseAgent, Placement, Plugin
from actors.definitions.spec import AgentSpec
from actors.interfaces.model import Model
from actors.layers.compaction.definitions import EventsCompactionConfig, LlmEventSummarizer
from actors.layers.recording.messages import Recording
from actors.layers.trees.fingerprints import likeness
from actors.layers.trees.process_groups import ProcessGroup
from actors.layers.trees.tree import AgentTree, summarises
from actors.messages.codec import decode, encode
from actors.messages.config import Limits
from actors.messages.json_types import JsonObject
from actors.messages.topology import Topology
from actors.rules.eviction import LruDict
from actors.rules.routing.transfer import Target, transfer_targets
from runtime.cluster.packing.class_fields import fields_of, identity_of, is_copy_of, is_data
from runtime.cluster.packing.compressed import CompressedStrings
from runtime.cluster.packing.pickling import SharedPickle, install_sources, load_both, refused, sources_of
from runtime.cluster.packing.unpicklable import keys_in
from runtime.engine.deployment import ModelCheck

logger = logging.getLogger(__name__)


KEPT = 256
"""Pickles of codes on top of which models can still be pickled. Each is some kilobytes, and a tree may have as many as agents."""

_NUMBERS = "Q"
"""Eight bytes for each number in an array."""

_NO_FIELDS: JsonObject = {}


class AgentRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one agent shares with no other.

    Attributes:
        code: the number of its code with its model.
        data: fields of its definition that are data.
        placement: fields of its placement that are not the default.
    """

    code: int
    data: JsonObject
    placement: JsonObject = {}


class AgentPackage(msgspec.Struct, frozen=True, array_like=True):
    """All that the process of one agent is given.

    `code` is a pickled SharedCode, and `model` what is pickled on top of it; `sources` has the lines of both that are in no file,
    by the file names of their functions; the rest is as in AgentSpec.
    """

    row: AgentRow
    code: bytes
    model: bytes
    children: tuple[str, ...]
    targets: tuple[Target, ...]
    tool_agents: tuple[str, ...]
    sources: dict[str, str] = {}
    summarises: bool = False


@dataclass(frozen=True)
class SharedCode:
    """What agents share besides their models, pickled as a whole.

    Attributes:
        kind: the class of their definitions.
        fields: fields of their definitions that are not data.
        extra, private: pydantic's extra fields and private attributes.
        definition: the definition itself, instead of its fields, when its class pickles in a way of its own.
        model_kind: the class of their models, to which these refer; None where they are names.
    """

    kind: type[BaseAgent]
    fields: Mapping[str, Any]
    extra: Any
    private: Any
    definition: BaseAgent | None
    global_instruction: Any
    plugins: tuple[Plugin, ...]
    limits: Limits
    recording: Recording
    compaction: EventsCompactionConfig | None
    model_kind: type | None = None

    def parts(self) -> Mapping[str, object]:
        """The parts of the definition, by the names that users know."""
        own = {} if self.definition is None else {"definition": self.definition}
        also = {
            "global_instruction": self.global_instruction,
            "plugins": self.plugins,
            "mask_requests": self.recording.mask,
            "events_compaction_config": self.compaction,
            "model": self.model_kind,
        }
        return {**self.fields, **also, **own, "private attributes": self.private, "extra fields": self.extra}


@dataclass(frozen=True)
class PackedDefinitions(Mapping[str, bytes]):
    """The definitions of a tree, as the Runner keeps them: an encoded AgentPackage by agent, for `unpack`.

    Nothing of it is decompressed and decoded but the package that is asked for.

    Attributes:
        rows: encoded AgentRows, in the order of the topology's nodes.
        codes: pickled SharedCodes.
        models: what is pickled on top of a code, by the number that rows have.
        code_of: of each of these the number of its code.
        sources: of each of the models, see AgentPackage.
    """

    topology: Topology
    rows: CompressedStrings
    codes: CompressedStrings
    models: CompressedStrings
    code_of: array[int]
    sources: Sequence[dict[str, str]]

    def __iter__(self) -> Iterator[str]:
        return self.topology.names()

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, agent: object) -> bool:
        return isinstance(agent, str) and self.topology.number(agent) is not None

    def __getitem__(self, agent: str) -> bytes:
        node, targets = self.topology[agent], transfer_targets(self.topology, agent)
        number = self.topology.number(agent)
        # There is such a node.
        assert number is not None
        row = decode(self.rows[number], AgentRow)
        code, sources = self.codes[self.code_of[row.code]], self.sources[row.code]
        model, does = self.models[row.code], summarises(self.topology, agent)
        return encode(AgentPackage(row, code, model, node.children, targets, node.tool_agents, sources, does))


@dataclass(frozen=True)
class PackedTree:
    """What a Runner needs to activate agents; it travels from the driver to the Runner.

    Attributes:
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
    # In the order of the topology's nodes.
    rows = CompressedStrings.of(encode(packer.row(tree.whole(agent))) for agent in tree)
    codes = packer.codes
    code_of, models = array(_NUMBERS, (code for code, _ in packer.models)), [model for _, model in packer.models]
    # A tree of many models has few codes, so they are not looked through for each model.
    of_codes, of_models = sources_of(codes), sources_of(models)
    distinct: dict[tuple[str, ...], dict[str, str]] = {}
    both = ({**of_codes[code], **own} if own else of_codes[code] for code, own in zip(code_of, of_models, strict=True))
    # A file's text is the same wherever it occurs, and travels once.
    sources = [distinct.setdefault(tuple(each), each) for each in both]
    return PackedDefinitions(
        tree.topology,
        rows,
        CompressedStrings.of(codes),
        CompressedStrings.of(models),
        code_of,
        sources,
    )


def unpack(packed: bytes) -> AgentSpec:
    """The spec of an agent out of its AgentPackage. It imports user modules, and may raise whatever they raise."""
    package = decode(packed, AgentPackage)
    install_sources(package.sources)
    code: SharedCode
    model: str | Model
    code, model = load_both(package.code, package.model)
    return AgentSpec(
        definition=code.definition or _definition(code, package.row),
        children=package.children,
        targets=package.targets,
        tool_agents=package.tool_agents,
        global_instruction=code.global_instruction,
        model=model,
        plugins=code.plugins,
        limits=code.limits,
        settings=(code.recording, code.compaction if package.summarises else None),
    )


class _Code(NamedTuple):
    """A SharedCode by its number, and its pickle, on top of which models are pickled."""

    number: int
    pickle: SharedPickle


class _Packer:
    """Splits agents into rows, codes and models.

    Attributes:
        codes: pickled SharedCodes, by number.
        models: the number of a code, and what is pickled on top of that, each with the number that rows have. Models that are
            pickled alike are one here: those of a hundred thousand agents may be made alike.
    """

    def __init__(self, tree: AgentTree, replace_model: Callable[[str | Model], str | Model]) -> None:
        self.codes: list[bytes] = []
        self.models: dict[tuple[int, bytes], int] = {}
        self._tree = tree
        self._models = tree.models
        self._replace_model = replace_model
        self._numbers: dict[tuple[Hashable, ...], int] = {}
        self._codes: LruDict[tuple[Hashable, ...], _Code] = LruDict(KEPT)
        self._warned: set[int] = set()
        self._has_keys = False
        self._compaction = _travelling(tree.compaction, replace_model)

    def row(self, agent: BaseAgent) -> AgentRow:
        """The row of an agent. A start waits for ten thousand of them, so fields with the default object are not looked at."""
        kind: type[BaseAgent] = type(agent)
        fields, values = fields_of(kind), agent.__dict__
        name = values["name"]
        model, global_instruction = self._models.get(name, ""), self._tree.global_instruction(name)
        data: JsonObject = {}
        code: list[str] = []
        key: list[Hashable] = [kind, type(model), identity_of(global_instruction)]
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
        number = self._numbers.get((identity_of(model), *key))
        if number is None:
            number = self._number(agent, model, tuple(key), code)
        placement = values["placement"]
        return AgentRow(number, data, _NO_FIELDS if placement.is_default else placement.model_dump(exclude_defaults=True))

    def _number(self, agent: BaseAgent, model: str | Model, key: tuple[Hashable, ...], fields: Sequence[str]) -> int:
        """The number of an agent's code with its model, which was not met before with that code."""
        alike = likeness(model) if not isinstance(model, str) else None
        shared = (identity_of(model) if alike is None else alike, *key)
        number = self._numbers.get(shared)
        if number is None:
            number = self.models.setdefault(self._with_model(agent, model, key, fields), len(self.models))
            self._numbers[shared] = number
        elif self._has_keys:
            self._warn_of_keys(agent, model)
        return number

    def _with_model(
        self, agent: BaseAgent, model: str | Model, key: tuple[Hashable, ...], fields: Sequence[str]
    ) -> tuple[int, bytes]:
        """The number of an agent's code, and its model on top of that. Raises DefinitionError: one of them cannot travel."""
        model = self._replace_model(model)
        code = self._codes.get(key)
        if code is None:
            shared = self._code(agent, fields, None if isinstance(model, str) else type(model))
            with refused(_refusal(agent), shared.parts):
                code = self._codes[key] = _Code(len(self.codes), SharedPickle(shared))
            self.codes.append(code.pickle.raw)
        try:
            own = code.pickle.dumps(model)
        except Exception:
            # Only here: to enter a context for each of a hundred thousand models takes longer than to pickle them.
            with refused(_refusal(agent), lambda: {"model": model}):
                raise
        self._warn_of_keys(agent, model)
        return code.number, own

    def _warn_of_keys(self, agent: BaseAgent, model: str | Model) -> None:
        if isinstance(model, str) or id(model) in self._warned:
            return
        self._warned.add(id(model))
        found = keys_in(model)
        self._has_keys = self._has_keys or bool(found)
        for name in found:
            logger.warning(
                "agent %r: model.%s looks like a key, and travels to the cluster with the definition: "
                "read it from the environment where the model is used, and give the variable with Settings(env=...)",
                agent.name,
                name,
            )

    def _code(self, agent: BaseAgent, fields: Sequence[str], model_kind: type | None) -> SharedCode:
        tree = self._tree
        alone = agent.alone()
        return SharedCode(
            kind=type(agent),
            fields={name: alone.__dict__[name] for name in fields},
            extra=agent.__pydantic_extra__,
            private=agent.__pydantic_private__,
            definition=alone if fields_of(type(agent)).is_opaque else None,
            global_instruction=tree.global_instruction(agent.name),
            plugins=tree.plugins,
            limits=tree.limits,
            recording=tree.recording,
            compaction=self._compaction,
            model_kind=model_kind,
        )


def _refusal(agent: BaseAgent) -> str:
    return f"agent {agent.name!r} cannot travel to its actor"


def _travelling(
    compaction: EventsCompactionConfig | None, replace_model: Callable[[str | Model], str | Model]
) -> EventsCompactionConfig | None:
    """The settings with what travels instead of their model."""
    if compaction is None or not isinstance(compaction.summarizer, LlmEventSummarizer):
        return compaction
    return replace(compaction, summarizer=replace(compaction.summarizer, model=replace_model(compaction.model)))


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
