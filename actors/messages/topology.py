"""The shape of the tree without the definitions, from which selection and transfer decide."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from zlib import crc32

import msgspec

from actors.errors import UnknownAgentError
from actors.errors.hints import did_you_mean, some_of
from actors.messages import codec
from actors.messages.graph import GraphShape
from actors.messages.json_types import JsonObject


class ByteStrings(msgspec.Struct, frozen=True, dict=True, array_like=True):
    """Byte strings one after the other. Python takes 41 bytes more for each that stands alone in a list, and this takes 8.

    Attributes:
        joined: all of them.
        ends: where each ends, as numbers of eight bytes in the order of this machine.
    """

    joined: bytes
    ends: bytes

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> ByteStrings:
        """Put byte strings together."""
        listed = list(strings)
        return cls(b"".join(listed), numbers(accumulate(map(len, listed))))

    @cached_property
    def _ends(self) -> memoryview[int]:
        return as_numbers(self.ends)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        """One of them by its number, from 0."""
        if not 0 <= number < len(self._ends):
            raise IndexError(number)
        return self.joined[self._ends[number - 1] if number else 0 : self._ends[number]]

    def __iter__(self) -> Iterator[bytes]:
        begin = 0
        for end in self._ends:
            yield self.joined[begin:end]
            begin = end

    def __reversed__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(len(self) - 1, -1, -1))


def numbers(values: Iterable[int]) -> bytes:
    """Numbers from 0 below 2 ** 64, eight bytes each, for `as_numbers`."""
    return array("Q", values).tobytes()


def as_numbers(raw: bytes) -> memoryview[int]:
    """A view of what `numbers` has made."""
    return memoryview(raw).cast("Q")


_SHOWN = 10
"""Agents that an error names, in place of one that is not there."""

LLM = "llm"
CUSTOM = "custom"
SEQUENTIAL = "sequential"
LOOP = "loop"
GRAPH = "graph"
FLOW = "flow"
PARALLEL = "parallel"

TASK = "task"
"""The mode of an agent that works on a task with the user."""

SINGLE_TURN = "single_turn"
"""The mode of an agent that answers what it is asked, once."""

CHAT = "chat"
"""The mode of an agent that hears the whole conversation as a node of a graph."""

KEPT = 4_096
"""Nodes that stay decoded, for the next time that they are asked for."""

_NUMBER_BITS = 32
_NUMBER = (1 << _NUMBER_BITS) - 1


class AgentNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One agent's place in the tree.

    Attributes:
        name: the agent's name.
        kind: llm, custom, sequential, parallel, loop, graph or flow.
        description: the agent's description.
        parent: the name of its parent; None for the root, and for a tool agent, which stands beside the tree.
        children: the names of its children, in order.
        tool_agents: the names of the agents that it has as tools.
        delegates: the names of the children that work for its calls, and to which no conversation is handed over.
        disallow_transfer_to_parent: see LlmAgent.
        disallow_transfer_to_peers: see LlmAgent.
        model: the name of its model, its own or an inherited one, as `name_of` gives it; "" without one.
        tools: the names of its tools.
        workers: of a flow, the agents that work on its tasks, wherever they stand.
        mode: see LlmAgent; "" for none.
        graph: of a graph, its edges and nodes; None for any other.
        input_schema: of a graph, the JSON schema of its input; None: it takes any.
        is_resumable: of a root that is that of an App of google-adk with `resumability_config`: clients of ADK get events
            that say how far agents are.
    """

    name: str
    kind: str = LLM
    description: str = ""
    parent: str | None = None
    children: tuple[str, ...] = ()
    tool_agents: tuple[str, ...] = ()
    delegates: tuple[str, ...] = ()
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    model: str = ""
    tools: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    mode: str = ""
    graph: GraphShape | None = None
    input_schema: JsonObject | None = None
    is_resumable: bool = False

    @property
    def is_llm(self) -> bool:
        """True for LLM agents, the only ones that transfer control."""
        return self.kind == LLM


class _Named(msgspec.Struct, gc=False):
    """No more of an AgentNode than its name."""

    name: str


class Topology(msgspec.Struct, frozen=True, dict=True):
    """All nodes: those of the tree, the root first and parents before their children; then tool agents with those below them.

    It stays encoded, and a node is decoded when it is asked for: an actor of a tree of a hundred thousand agents has a few of
    them in use. `Topology.of` makes one.

    Attributes:
        rows: the nodes, encoded.
        places: by ascending hash of their names, the hash and the number of each node in one number, for `as_numbers`.
        has_tasks: an agent works on tasks with the user.
        has_graphs: an agent is a graph, whose nodes may ask the user.
    """

    rows: ByteStrings
    places: bytes
    has_tasks: bool = False
    has_graphs: bool = False

    @classmethod
    def of(cls, nodes: Iterable[AgentNode]) -> Topology:
        """A topology of these nodes, in this order."""
        rows: list[bytes] = []
        places: list[int] = []
        has_tasks = has_graphs = False
        for number, node in enumerate(nodes):
            has_tasks = has_tasks or node.mode == TASK
            has_graphs = has_graphs or node.kind == GRAPH
            rows.append(_ENCODER.encode(node))
            places.append(_hash(node.name) << _NUMBER_BITS | number)
        return cls(ByteStrings.of(rows), numbers(sorted(places)), has_tasks, has_graphs)

    @cached_property
    def _places(self) -> memoryview[int]:
        return as_numbers(self.places)

    @cached_property
    def _kept(self) -> dict[str, AgentNode]:
        return {}

    @property
    def nodes(self) -> Nodes:
        """All nodes, decoded one by one."""
        return Nodes(self.rows)

    @cached_property
    def root(self) -> AgentNode:
        """The root of the tree."""
        return _NODES.decode(self.rows[0])

    def names(self) -> Iterator[str]:
        """The names of all nodes, in their order."""
        return (_NAMES.decode(row).name for row in self.rows)

    def number(self, name: str) -> int | None:
        """The number of the node with that name, from 0 in the order of the nodes; None when there is none."""
        key = _hash(name)
        at = bisect_left(self._places, key << _NUMBER_BITS)
        while at < len(self._places) and (place := self._places[at]) >> _NUMBER_BITS == key:
            number = place & _NUMBER
            if _NAMES.decode(self.rows[number]).name == name:
                return number
            at += 1
        return None

    def find(self, name: str) -> AgentNode | None:
        """The node with that name, or None."""
        node = self._kept.get(name)
        if node is None and (number := self.number(name)) is not None:
            node = _NODES.decode(self.rows[number])
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[node.name] = node
        return node

    def __getitem__(self, name: str) -> AgentNode:
        """The node with that name.

        Raises:
            UnknownAgentError: there is none; the message suggests a name.
        """
        node = self.find(name)
        if node is None:
            # Without those that the tree has added.
            names = [each for each in self.names() if not each.startswith("@")]
            raise UnknownAgentError(name, did_you_mean(name, names) or f" It has {some_of(names, _SHOWN)}.")
        return node

    def lineage(self, name: str) -> Iterator[AgentNode]:
        """The node with that name, then its parent, and so on to the root."""
        node: AgentNode | None = self[name]
        while node is not None:
            yield node
            node = self[node.parent] if node.parent is not None else None

    def is_delegate(self, name: str) -> bool:
        """True when the agent works for the calls of its parent."""
        parent = self[name].parent
        return parent is not None and name in self[parent].delegates

    def is_beside(self, name: str) -> bool:
        """True when the agent stands beside the tree: a tool agent, or one below it."""
        return not self.is_below(name, self.root.name)

    def is_below(self, name: str, ancestor: str) -> bool:
        """True when `name` is `ancestor` or stands anywhere below it."""
        return any(node.name == ancestor for node in self.lineage(name))


class Nodes:
    """The nodes of a topology in their order; each is decoded when it is reached.

    Args:
        rows: the nodes, encoded.
    """

    def __init__(self, rows: ByteStrings) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[AgentNode]:
        return map(_NODES.decode, self._rows)

    def __reversed__(self) -> Iterator[AgentNode]:
        return map(_NODES.decode, reversed(self._rows))


_ENCODER = msgspec.msgpack.Encoder()
_NODES = codec.decoder(AgentNode)
_NAMES = codec.decoder(_Named)


def _hash(name: str) -> int:
    # A model may make up a name of half characters.
    return crc32(name.encode(errors="surrogatepass"))
