"""An agent's needs against what the nodes have, and the error when no node has it."""

from __future__ import annotations

from typing import Any

import pytest

from actors import AgentTool, LlmAgent, Placement
from actors.errors import AgentTreeError, DefinitionError
from actors.layers.trees.process_groups import ProcessGroup
from actors.layers.trees.tree import AgentTree
from runtime.cluster.rules.nodes import Needs, Node, refusal, selects

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
