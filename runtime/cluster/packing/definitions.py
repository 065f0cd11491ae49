"""The definitions of a tree on their way from the driver to the Runner, and one by one to their agents' processes.

A tree may have ten thousand agents, and most of them differ in words only. So an agent is taken apart: its words and numbers
make a row, encoded as data; everything else (its class, tools, callbacks, model, plugins) is its code, pickled once for all
agents that share the very same objects. What belongs to one agent is pickled in one go, so that objects that its tools and
callbacks have in common stay one object. The Runner hands rows and code on, and unpickles neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import compress
from operator import is_not, itemgetter
from typing import Any

import msgspec
import pydantic
from pydantic_core import PydanticUndefined
from ray import cloudpickle

from actors.definitions.agents import Agent, LlmAgent, Placement
from actors.definitions.tree import AgentSpec, AgentTree
from actors.messages.codec import decode, encode
from actors.messages.limits import Limits
from actors.messages.topology import Topology
from actors.rules.routing.transfer import Target, transfer_targets
from runtime.cluster.packing.chunks import packed

_SIMPLE = frozenset({float, bool, type(None)})
_ANYWHERE = Placement()
_NO_FIELDS: dict[str, Any] = {}
_LARGEST = 2**63
"""Integers from here on are no data of MessagePack."""


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one agent has of its own.

    Attributes:
        code: the number of its code.
        plain: fields of its definition that are data.
        placement: what of its placement is not the default.
    """

    code: int
    plain: dict[str, Any]
    placement: dict[str, Any] = {}


class _Page(msgspec.Struct, frozen=True, array_like=True):
    """All that the process of one agent is given."""

    row: _Row
    code: bytes
    children: tuple[str, ...]
    targets: tuple[Target, ...]
    tool_agents: tuple[str, ...]


@dataclass(frozen=True)
class _Code:
    """What agents share, pickled as a whole.

    Attributes:
        definition: instead of the fields, when its class pickles in a way of its own.
    """

    kind: type[Agent]
    fields: Mapping[str, Any]
    extra: Any
    private: Any
    definition: Agent | None
    global_instruction: Any
    model: Any
    plugins: Any
    limits: Limits


class PackedDefinitions(Mapping[str, bytes]):
    """The definitions of a tree, as the Runner keeps them: by agent what its process is given, for `spec_of`.

    Args:
        count: how many they are.
        rows: encoded, by agent.
        codes: pickled by Ray's pickler.
        topology: the parent map, encoded.

    Attributes:
        codes: the same.
    """

    def __init__(self, count: int, rows: bytes, codes: Sequence[bytes], topology: bytes) -> None:
        self._count = count
        self._raw_rows = rows
        self.codes = codes
        self._raw_topology = topology

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedDefinitions, (self._count, self._raw_rows, self.codes, self._raw_topology)

    @cached_property
    def _rows(self) -> dict[str, msgspec.Raw]:
        # Each is a part of the bytes above, not a copy; the first agent that is spoken to has this done, not the start.
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
        return encode(_Page(row, self.codes[row.code], node.children, targets, node.tool_agents))

    def _row(self, agent: str) -> _Row:
        return decode(bytes(self._rows[agent]), _Row)


def spec_of(raw: bytes) -> AgentSpec:
    """An agent's spec out of what its process was given. It runs the user's modules, and may raise whatever they raise."""
    page = decode(raw, _Page)
    code: _Code = cloudpickle.loads(page.code)
    return AgentSpec(
        definition=code.definition or _put_together(code, page.row),
        children=page.children,
        targets=page.targets,
        tool_agents=page.tool_agents,
        global_instruction=code.global_instruction,
        model=code.model,
        plugins=code.plugins,
        limits=code.limits,
    )


def bound(tree: AgentTree, travelling: Callable[[Any], Any]) -> PackedDefinitions:
    """The definitions of a tree, ready to travel.

    Args:
        travelling: gives what stands for a model on the way.

    Raises:
        DefinitionError: an agent cannot travel to its actor; the message names it.
    """
    binder = _Binder(tree, travelling)
    rows = {agent.name: binder.row(agent) for agent in tree}
    return PackedDefinitions(len(rows), encode(rows), binder.codes, encode(tree.topology))


class _Binder:
    def __init__(self, tree: AgentTree, travelling: Callable[[Any], Any]) -> None:
        self.codes: list[bytes] = []
        self._tree = tree
        self._models = tree.models
        self._travelling = travelling
        self._numbers: dict[tuple[Any, ...], int] = {}

    def row(self, agent: Agent) -> _Row:
        """An agent's own part. Done ten thousand times, before anything is ready: so whatever is the default is not looked at."""
        shape, values, name = _shape(type(agent)), agent.__dict__, agent.name
        model, global_instruction = self._models.get(name, ""), self._tree.global_instruction(name)
        plain: dict[str, Any] = {}
        code: list[str] = []
        marks: list[Any] = [type(agent), _mark(model), _mark(global_instruction)]
        if shape.is_own:
            # Nobody knows what of it could be left out.
            marks.append(id(agent))
        else:
            for field in shape.changed(values):
                value = values[field]
                if (type(value) is str and value.isascii()) or _is_data(value):
                    plain[field] = value
                elif not _is_same(value, shape.defaults.get(field)):
                    code.append(field)
                    marks += (field, _mark(value))
            if agent.__pydantic_extra__ is not None or agent.__pydantic_private__ is not None:
                marks.append(id(agent))
        number = self._numbers.get(key := tuple(marks))
        if number is None:
            number = self._numbers[key] = len(self.codes)
            self.codes.append(packed(f"agent {name!r} cannot travel to its actor", self._code(agent, code)))
        placement = values["placement"]
        # Ten times as fast as pydantic compares, and most agents may live anywhere.
        is_anywhere = placement.__dict__ == _ANYWHERE.__dict__
        return _Row(number, plain, _NO_FIELDS if is_anywhere else placement.model_dump(exclude_defaults=True))

    def _code(self, agent: Agent, fields: Sequence[str]) -> _Code:
        tree = self._tree
        alone = agent.alone()
        return _Code(
            kind=type(agent),
            fields={name: alone.__dict__[name] for name in fields},
            extra=agent.__pydantic_extra__,
            private=agent.__pydantic_private__,
            definition=alone if _shape(type(agent)).is_own else None,
            global_instruction=tree.global_instruction(agent.name),
            model=self._travelling(tree.model(agent.name)),
            plugins=tree.plugins,
            limits=tree.limits,
        )


class _Shape:
    """What all definitions of a class have in common.

    Attributes:
        is_own: it pickles in a way of its own, or leaves out other things when it travels.
        defaults: of its fields, those without one left out.
    """

    def __init__(self, kind: type[Agent]) -> None:
        hooks = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
        is_usual = all(getattr(kind, hook, None) is getattr(Agent, hook, None) for hook in hooks)
        self.is_own = not is_usual or kind.alone not in (Agent.alone, LlmAgent.alone)
        found = {name: field.default for name, field in kind.model_fields.items()}
        self.defaults = {name: default for name, default in found.items() if default is not PydanticUndefined}
        # Children and models travel by themselves, placements in the rows.
        left_out = {"sub_agents", "placement", *(["model"] if issubclass(kind, LlmAgent) else [])}
        self._names = tuple(name for name in found if name not in left_out)
        self._values = itemgetter(*self._names)
        self._defaults = tuple(found[name] for name in self._names)
        self._known = frozenset(found)

    def changed(self, values: Mapping[str, Any]) -> Iterable[str]:
        """The fields that are not the default itself. Of all fields of all agents, so it is done by no loop of ours."""
        changed = compress(self._names, map(is_not, self._values(values), self._defaults))
        if len(values) == len(self._known):
            return changed
        # Properties that keep what they have found.
        return [*changed, *(name for name in values if name not in self._known)]


_shape = cache(_Shape)


def _put_together(code: _Code, row: _Row) -> Agent:
    """A definition without its children, as it was. It was checked when it was made."""
    values = {**_shape(code.kind).defaults, "sub_agents": (), "placement": Placement(**row.placement), **code.fields, **row.plain}
    definition = code.kind.__new__(code.kind)
    definition.__setstate__(
        {
            "__dict__": values,
            "__pydantic_fields_set__": {"name", *code.fields, *row.plain},
            "__pydantic_extra__": code.extra,
            "__pydantic_private__": code.private,
        }
    )
    return definition


def _mark(value: Any) -> Any:
    """Equal for values that are the same objects."""
    if type(value) is str:
        return value
    if type(value) is tuple or type(value) is list:
        return (type(value), *map(id, value))
    return id(value)


def _is_data(value: Any) -> bool:
    """True for what comes back from a journey as it was."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii()) or _is_text(value)
    if kind is int:
        return bool(-_LARGEST <= value < _LARGEST)
    if kind is dict:
        return all(type(key) is str and _is_data(key) and _is_data(each) for key, each in value.items())
    if kind is list:
        return all(map(_is_data, value))
    return kind in _SIMPLE


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_same(value: Any, default: Any) -> bool:
    """True for a default that pydantic has copied."""
    return isinstance(value, pydantic.BaseModel) and type(value) is type(default) and value == default
