"""What agents need against what nodes have; where processes start, and which ones move while nodes come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import AgentTool, LlmAgent, Placement
from actors.errors import AgentTreeError, DefinitionError
from actors.layers.trees.process_groups import ProcessGroup
from actors.layers.trees.tree import AgentTree
from runtime.cluster.rules.nodes import (
    ClusterSize,
    DrainNotice,
    Move,
    Needs,
    Node,
    cluster_size,
    next_move,
    node_for,
    refusal,
    selects,
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


SMALL = Node("small", {"CPU": 2, "memory": 4 * 1024**3, "node:small": 1}, {"zone": "eu", "ray.io/node-id": "1"})
LARGE = Node("large", {"CPU": 16, "GPU": 1, "fast_disk": 1, "memory": 64 * 1024**3}, {"zone": "us"})


@pytest.mark.parametrize(
    "needs",
    [
        Needs({}, {}),
        Needs({"CPU": 16, "GPU": 1}, {}),
        Needs({"memory": 4 * 1024**3}, {"zone": "eu"}),
        Needs({"fast_disk": 0.5}, {"zone": "!eu"}),
        Needs({"CPU": 2}, {"zone": "in(eu, asia)", "spot": "!true"}),
    ],
)
def test_what_one_node_has_can_be_placed(needs: Needs) -> None:
    assert refusal(needs, [SMALL, LARGE]) is None


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        (Needs({"GPU": 2}, {}), "and the nearest of 2 nodes, small, has no GPU"),
        (Needs({"CPU": 17, "GPU": 1}, {}), "and the nearest of 2 nodes, large, has 16 CPU in all"),
        (Needs({"CPU": 4, "GPU": 1}, {"zone": "eu"}), "and the nearest of 2 nodes, large, has label zone=us"),
        (Needs({"memory": 65 * 1024**3}, {}), "and the nearest of 2 nodes, small, has 4 GiB of memory in all"),
        (Needs({"fastdisk": 1}, {}), "has no fastdisk. Did you mean 'fast_disk'?"),
        (Needs({}, {"zones": "eu"}), "has no label zones. Did you mean 'zone'?"),
    ],
)
def test_what_no_node_has_is_refused_with_the_nearest_one_and_what_it_lacks(needs: Needs, said: str) -> None:
    told = refusal(needs, [SMALL, LARGE])
    assert told is not None
    assert told.endswith(said)


def test_no_node_and_one_node_are_told_as_they_are() -> None:
    assert refusal(Needs({}, {}), []) == "and there is no node"
    assert refusal(Needs({"GPU": 1}, {}), [SMALL]) == "and the only node, small, has no GPU"
    assert str(Needs({"GPU": 1, "memory": 1024**3}, {"zone": "!eu"})) == "1 GPU, 1 GiB of memory, label zone=!eu"


@pytest.mark.parametrize(
    ("selector", "label", "is_selected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", None, False),
        ("!a", "a", False),
        ("!a", None, True),
        ("in(a, b)", "b", True),
        ("in(a,b)", "c", False),
        ("!in(a, b)", "c", True),
        ("!in(a, b)", "a", False),
    ],
)
def test_selectors_are_read_as_ray_reads_them(selector: str, label: str | None, is_selected: bool) -> None:
    assert selects(selector, label) == is_selected


WITH_PARENT = Placement(colocate="parent")


def llm(name: str, *children: LlmAgent, **more: Any) -> LlmAgent:
    return LlmAgent(name=name, sub_agents=list(children), **more)


def test_who_lives_with_its_parent_lives_where_the_first_does_who_lives_for_itself() -> None:
    gpu = Placement(num_gpus=1)
    deep = llm("c", llm("d", placement=WITH_PARENT), placement=WITH_PARENT)
    tree = AgentTree(llm("a", llm("b", deep, placement=gpu), llm("e", llm("f", placement=WITH_PARENT))))
    assert tree.process_groups == {
        "b": ProcessGroup("b", gpu),
        "c": ProcessGroup("b", gpu),
        "d": ProcessGroup("b", gpu),
        "f": ProcessGroup("e", Placement()),
    }


def test_who_has_no_parent_cannot_live_with_it() -> None:
    with pytest.raises(AgentTreeError, match=r"'root' has no parent .* it is the root"):
        AgentTree(llm("root", placement=WITH_PARENT))
    with pytest.raises(AgentTreeError, match=r"'expert' has no parent .* beside the tree"):
        AgentTree(llm("root", tools=[AgentTool(llm("expert", placement=WITH_PARENT))], model="gemini-2.5-pro"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"colocate": "parent", "num_gpus": 1}, ["colocate='parent' does not go with num_gpus", "to the parent"]),
        ({"colocate": "parent", "replicas": 2}, ["does not go with replicas"]),
        ({"colocate": "parent", "label_selector": {"zone": "eu"}}, ["does not go with label_selector"]),
        ({"colocate": "sibling"}, ["colocate", "parent"]),
        ({"replicas": 0}, ["replicas", "greater than or equal to 1"]),
        ({"replicas": 3, "max_replicas": 2}, ["max_replicas=2 is less than replicas=3", "a larger one"]),
        ({"gpus": 1}, ["gpus"]),
    ],
)
def test_placements_that_make_no_sense_are_refused_at_once(fields: dict[str, Any], words: list[str]) -> None:
    # As a program without types would call it.
    agent: Any = LlmAgent
    for define in (lambda: Placement(**fields), lambda: agent(name="a", placement=fields)):
        with pytest.raises(DefinitionError) as raised:
            define()
        for word in words:
            assert word in str(raised.value)


def test_what_goes_together_is_taken() -> None:
    assert Placement(colocate="parent", replicas=1, num_cpus=0).colocate == "parent"
    assert not Placement(replicas=3).asks
    assert Placement(label_selector={"zone": "eu"}).asks
