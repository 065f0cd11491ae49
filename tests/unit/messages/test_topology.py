"""The shape of a tree."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings

from actors.errors import UnknownAgentError
from actors.messages.topology import Topology
from tests.support.fixtures.topologies import topologies
from tests.support.tries import tries


@settings(max_examples=tries(200))
@given(topologies())
def test_every_agent_is_found_and_its_lineage_leads_to_the_root(tree: Topology) -> None:
    for node in tree.nodes:
        line = list(tree.lineage(node.name))
        assert line[0] is tree.find(node.name) is tree[node.name]
        assert line[-1] is tree.root
        assert [below.parent for below in line[:-1]] == [above.name for above in line[1:]]
        assert all(below.name in above.children for below, above in pairwise(line))


@settings(max_examples=tries(100))
@given(topologies())
def test_an_agent_is_below_itself_and_below_all_above_it(tree: Topology) -> None:
    for node in tree.nodes:
        above = {each.name for each in tree.lineage(node.name)}
        assert {other.name for other in tree.nodes if tree.is_below(node.name, other.name)} == above


@given(topologies(min_size=3))
def test_an_unknown_name_is_an_error_that_names_the_nearest(tree: Topology) -> None:
    assert tree.find("n02") is None
    with pytest.raises(UnknownAgentError, match=r"'n02' is not in the tree\. Did you mean 'n"):
        tree["n02"]
