"""Models that are made alike travel once, however many agents have one of their own."""

from __future__ import annotations

from itertools import count

import pytest

from actors import LlmAgent
from actors.layers.trees.tree import AgentTree
from runtime.cluster.packing.definitions import pack_tree, unpack
from tests.unit.cluster.packing.test_packed_definitions import OwnModel


def test_models_that_are_alike_are_pickled_once() -> None:
    def own_model(level: int, words: str) -> LlmAgent:
        below = [own_model(level - 1, "same") for _ in range(2)] if level else []
        return LlmAgent(name=f"a{next(numbers)}", model=OwnModel(limits=[1, 2], words=words), sub_agents=below)

    numbers = count()
    tree = AgentTree(own_model(3, "other"))
    packed = pack_tree(tree, lambda model: model)
    # Theirs, and that of the controller of flows, which has none.
    assert len(packed.models) == 3
    assert [vars(unpack(packed[name]).model) for name in tree.models] == list(map(vars, tree.models.values()))


def test_each_agent_is_named_whose_model_has_a_key(caplog: pytest.LogCaptureFixture) -> None:
    children = [LlmAgent(name=f"a{number}", model=OwnModel(api_key="sesame")) for number in range(2)]
    pack_tree(AgentTree(LlmAgent(name="root", model="gemini-x", sub_agents=children)), lambda model: model)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["agent 'a0'", "agent 'a1'"]
