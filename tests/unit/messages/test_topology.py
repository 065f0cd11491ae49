"""The shape of a tree, and the byte strings in which it travels."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise, permutations
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import UnknownAgentError
from actors.messages.codec import decode, encode
from actors.messages.topology import KEPT, AgentNode, ByteStrings, Topology
from tests.support.fixtures.topologies import topologies
from tests.support.tries import tries


@settings(max_examples=tries(200))
@given(topologies())
def test_every_agent_is_found_and_its_lineage_leads_to_the_root(tree: Topology) -> None:
    for node in tree.nodes:
        line = list(tree.lineage(node.name))
        assert line[0] is tree.find(node.name) is tree[node.name]
        assert line[-1] == tree.root
        assert [below.parent for below in line[:-1]] == [above.name for above in line[1:]]
        assert all(below.name in above.children for below, above in pairwise(line))


@settings(max_examples=tries(100))
@given(topologies())
def test_an_agent_is_below_itself_and_below_all_above_it(tree: Topology) -> None:
    for node in tree.nodes:
        above = {each.name for each in tree.lineage(node.name)}
        assert {other.name for other in tree.nodes if tree.is_below(node.name, other.name)} == above


def test_agents_whose_names_have_the_same_hash_are_told_apart() -> None:
    names = ["plumless", "buckeroo"]
    assert crc32(names[0].encode()) == crc32(names[1].encode())
    for order in permutations(["root", *names]):
        tree = Topology.of(AgentNode(name=name) for name in order)
        assert [tree[name].name for name in names] == names
        assert [tree.number(name) for name in order] == [0, 1, 2]


def test_a_name_of_half_characters_is_no_agent() -> None:
    assert Topology.of([AgentNode(name="root")]).find("\ud800") is None


def test_of_a_large_tree_a_few_nodes_are_decoded_at_any_time() -> None:
    names = [f"clerk_{number}" for number in range(3 * KEPT)]
    tree = Topology.of(AgentNode(name=name, description=f"Answers about {name}.") for name in names)
    tracemalloc.start()
    try:
        assert [tree[name].name for name in names] == names
        found, _ = tracemalloc.get_traced_memory()
        everywhere = [tree[name] for name in names], list(tree.nodes)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(everywhere[0]) == len(everywhere[1]) == len(names)
    assert found < held / 3


@given(topologies(min_size=3))
def test_an_unknown_name_is_an_error_that_names_the_nearest(tree: Topology) -> None:
    assert tree.find("n02") is None
    with pytest.raises(UnknownAgentError, match=r"'n02' is not in the tree\. Did you mean 'n"):
        tree["n02"]


@given(st.lists(st.binary(max_size=5)))
def test_byte_strings_are_the_same_after_a_journey(strings: list[bytes]) -> None:
    joined = decode(encode(ByteStrings.of(strings)), ByteStrings)
    assert len(joined) == len(strings)
    assert list(joined) == [joined[number] for number in range(len(strings))] == strings
    assert list(reversed(joined)) == strings[::-1]
    for wrong in (-1, len(strings)):
        with pytest.raises(IndexError):
            joined[wrong]
