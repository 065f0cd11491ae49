"""Where processes of agents start, and which ones move, on clusters whose nodes come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.cluster.rules.nodes import (
    ClusterSize,
    DrainNotice,
    Move,
    Needs,
    Node,
    cluster_size,
    next_move,
    node_for,
    surplus,
    usable,
)
from runtime.cluster.rules.process_choice import HOST_BYTES
from tests.support.tries import tries

GIB = 1024**3
HEAD = Node("head", {"CPU": 0, "memory": 64 * GIB}, {"role": "head"}, "head")


def node(name: str, cpus: float = 1, *, memory: float = 64 * GIB, **resources: float) -> Node:
    return Node(name, {"CPU": cpus, "memory": memory, **resources}, {"zone": name}, name)


def leaving(each: Node) -> Node:
    return each._replace(drain=DrainNotice(100.0))


@pytest.mark.parametrize(
    ("nodes", "processes", "needs", "expected"),
    [
        ([], {}, Needs({}, {}), ""),
        ([HEAD], {}, Needs({}, {}), "head"),
        ([HEAD, node("a")], {"a": 50}, Needs({}, {}), "a"),
        ([HEAD, leaving(node("a"))], {}, Needs({}, {}), "head"),
        ([leaving(node("a"))], {}, Needs({}, {}), ""),
        ([node("a"), node("b")], {"a": 1}, Needs({}, {}), "b"),
        ([node("a"), node("b", 8)], {"b": 6}, Needs({}, {}), "b"),
        ([node("a"), node("b", 8)], {"b": 7}, Needs({}, {}), "a"),
        ([node("a", 64, memory=8 * HOST_BYTES), node("b")], {"a": 3, "b": 2}, Needs({}, {}), "b"),
        ([node("a"), node("b", gpu=1)], {"b": 9}, Needs({"gpu": 0.1}, {}), "b"),
        ([node("a"), node("b")], {"a": 9}, Needs({}, {"zone": "a"}), "a"),
        ([HEAD, node("a")], {}, Needs({}, {"role": "head"}), "head"),
    ],
)
def test_the_next_process_starts_where_room_is(nodes: list[Node], processes: dict[str, int], needs: Needs, expected: str) -> None:
    assert node_for(nodes, processes, needs) == expected


@pytest.mark.parametrize(
    ("nodes", "processes", "suspects", "expected"),
    [
        ([node("a"), node("b")], {"b": 9}, {"a"}, "b"),
        ([HEAD, node("a")], {"a": 3}, {"a"}, "a"),
        ([node("a"), node("b")], {"a": 1}, {"a", "b"}, "b"),
    ],
)
def test_a_node_that_may_be_gone_gets_a_process_only_where_no_other_can_have_it(
    nodes: list[Node], processes: dict[str, int], suspects: set[str], expected: str
) -> None:
    assert node_for(nodes, processes, suspects=suspects) == expected


@pytest.mark.parametrize(
    ("nodes", "processes", "expected"),
    [
        ([], {"a": 3}, None),
        ([node("a")], {"a": 9}, None),
        ([node("a"), node("b")], {"a": 1}, None),
        ([node("a"), node("b")], {"a": 2}, Move("a", "b")),
        ([node("a"), node("b")], {"a": 3, "b": 2}, None),
        ([node("a", 2), node("b")], {"a": 4, "b": 2}, None),
        ([node("a"), leaving(node("b"))], {"a": 9}, None),
        ([HEAD, node("a")], {"head": 1, "a": 9}, Move("head", "a")),
        ([HEAD, node("a")], {"a": 9}, None),
    ],
)
def test_a_process_moves_when_that_evens_out_the_load(
    nodes: list[Node], processes: dict[str, int], expected: Move | None
) -> None:
    assert next_move(nodes, processes) == expected


def test_only_nodes_that_agents_may_use_count_for_the_size() -> None:
    nodes = [HEAD, node("a", 4), leaving(node("b", 8))]
    assert cluster_size(usable(nodes)) == ClusterSize(64 * GIB, 4)


def test_a_process_has_too_many_agents_when_more_processes_may_share_them() -> None:
    assert surplus([4, 4, 3], 3) == [1, 1, 0]
    assert surplus([4, 4, 1], 4) == [2, 2, 0]
    assert surplus([4, 4, 1], 9) == [3, 3, 0]
    assert surplus([], 8) == []


class Breathing:
    """A cluster whose nodes come and go, with as many processes as were started and not ended."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.processes: Counter[str] = Counter()
        self._numbers = 0

    def come(self, cpus: int) -> None:
        self._numbers += 1
        self.nodes[f"n{self._numbers}"] = node(f"n{self._numbers}", cpus)

    def drain(self, which: int) -> None:
        """Have a node drain: all processes on it go elsewhere."""
        name = sorted(self.nodes)[which % len(self.nodes)]
        self.nodes[name] = leaving(self.nodes[name])
        for _ in range(self.processes.pop(name, 0)):
            self.start()

    def leave(self) -> None:
        """Have the nodes that drain leave."""
        self.nodes = {name: each for name, each in self.nodes.items() if each.drain is None}

    def start(self) -> None:
        target = node_for(list(self.nodes.values()), self.processes)
        if target:
            assert self.nodes[target].drain is None
            assert self.nodes[target].cpus or not any(each.cpus for each in self.nodes.values() if each.drain is None)
            self.processes[target] += 1

    def settle(self) -> list[Move]:
        """Move processes until none is to move."""
        moves = []
        while (move := next_move(list(self.nodes.values()), self.processes)) is not None:
            assert self.nodes[move.target].drain is None
            assert self.processes[move.source] > 0
            self.processes[move.source] -= 1
            self.processes[move.target] += 1
            moves.append(move)
            assert len(moves) <= self.processes.total(), "moves do not come to an end"
        return moves

    def unevenness(self) -> float:
        """The difference of the loads of two nodes, in processes of the larger one."""
        staying = [each for each in self.nodes.values() if each.drain is None and each.cpus]
        loads = [(self.processes[each.id] / each.cpus, each.cpus) for each in staying]
        return max(
            ((high - low) / (1 / high_cpus + 1 / low_cpus) for high, high_cpus in loads for low, low_cpus in loads), default=0.0
        )


def test_a_node_that_joins_a_hundred_gets_its_share_and_nothing_else_moves() -> None:
    cluster = Breathing()
    for number in range(100):
        cluster.come(1 + number % 4)
    for _ in range(400):
        cluster.start()
    assert cluster.settle() == []
    cluster.come(4)
    moves = cluster.settle()
    assert {move.target for move in moves} == {"n101"}
    assert len(moves) == cluster.processes["n101"] == 6
    assert cluster.settle() == []


Change = st.one_of(
    st.tuples(st.just("come"), st.sampled_from([1, 2, 4, 16])),
    st.tuples(st.just("drain"), st.integers(0, 200)),
    st.tuples(st.just("leave"), st.just(0)),
    st.tuples(st.just("start"), st.integers(1, 30)),
)


@settings(max_examples=tries(60), deadline=None)
@given(first=st.lists(st.sampled_from([0, 1, 2, 4, 16]), min_size=1, max_size=100), changes=st.lists(Change, max_size=30))
def test_nodes_come_and_go_and_the_load_becomes_even_with_few_moves(
    first: Sequence[int], changes: Sequence[tuple[str, int]]
) -> None:
    cluster = Breathing()
    for cpus in first:
        cluster.come(cpus)
    for kind, number in changes:
        before = Counter(cluster.processes)
        if kind == "come":
            cluster.come(number)
        elif kind == "drain" and cluster.nodes:
            cluster.drain(number)
        elif kind == "leave":
            cluster.leave()
        else:
            for _ in range(number):
                cluster.start()
        moves = cluster.settle()
        assert cluster.unevenness() <= 1 + 1e-9
        assert cluster.settle() == []
        # No process goes to and fro: a node either gives or takes.
        assert not {move.source for move in moves} & {move.target for move in moves}
        if kind == "come" and all(each.cpus for each in cluster.nodes.values()):
            newest = max(cluster.nodes, key=lambda name: int(name[1:]))
            assert {move.target for move in moves} <= {newest}, before
