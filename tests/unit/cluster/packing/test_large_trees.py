"""The definitions of a large tree, where the Runner keeps them."""

from __future__ import annotations

import pickle
import tracemalloc

from actors import LlmAgent
from actors.definitions.tree import AgentTree
from actors.testing import PatternModel
from runtime.cluster.packing.definitions import pack_tree, unpack


def test_a_large_tree_stays_packed_when_agents_are_activated() -> None:
    def clerk(name: str, *below: LlmAgent) -> LlmAgent:
        return LlmAgent(name=name, instruction=f"Say {name}. " * 30, model=PatternModel([]), sub_agents=below)

    desks = [clerk(f"desk_{desk}", *(clerk(f"clerk_{desk}_{number}") for number in range(50))) for desk in range(40)]
    packed = pack_tree(AgentTree(clerk("root", *desks)), lambda model: model)
    raw = pickle.dumps(packed)
    unpack(packed["root"])
    tracemalloc.start()
    try:
        packed = pickle.loads(raw)
        assert unpack(packed["clerk_39_49"]).definition.model_dump()["instruction"] == "Say clerk_39_49. " * 30
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The instructions alone have a megabyte.
    assert held < 400_000
