"""The definitions of a large tree, where the Runner keeps them."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import AsyncIterator

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from actors.layers.trees.tree import AgentTree
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


def test_models_share_their_class_and_those_that_are_made_alike_are_one() -> None:
    class OfTheUser:
        """Travels with its code, since no other process can import it."""

        def __init__(self, answer: str) -> None:
            self.answer = answer

        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            yield LlmResponse(content=Content.of_text(self.answer * len("a class with some code in it"), role="model"))

    agents = [LlmAgent(name=f"a{number}", model=OfTheUser(str(number // 2))) for number in range(20)]
    root = LlmAgent(name="root", model=OfTheUser("root"), instruction="Begin.", sub_agents=agents)
    packed = pack_tree(AgentTree(root), lambda model: model)
    models = [packed.models[number] for number in range(len(packed.models))]
    # Beside the root's, and that of the controller beside the tree.
    assert len(models) == 12
    assert all(len(model) < 200 for model in models)
    assert [vars(unpack(packed[f"a{number}"]).model)["answer"] for number in range(20)] == [str(n // 2) for n in range(20)]
