"""Definitions travel compressed and in chunks, which Ray keeps with the actor that needs them."""

from __future__ import annotations

import pickle
import random
import threading
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from actors.errors import DefinitionError
from actors.layers.trees.tree import AgentTree
from actors.testing import PatternModel
from runtime.cluster.packing.compressed import BLOCK_BYTES, CompressedStrings
from runtime.cluster.packing.definitions import pack_tree, unpack
from runtime.cluster.packing.pickling import CHUNK_BYTES, MAX_BYTES, from_chunks, to_chunks

RAY_INLINES_BYTES = 100 * 1024
"""Ray's max_direct_call_object_size: larger arguments do not travel with the task."""


@given(size=st.integers(0, 5 * CHUNK_BYTES), seed=st.integers(0, 100))
def test_a_value_of_any_size_arrives_in_small_pieces(size: int, seed: int) -> None:
    value = random.Random(seed).randbytes(size)
    chunks = to_chunks("no", value)
    assert max(map(len, chunks)) <= CHUNK_BYTES < RAY_INLINES_BYTES
    assert from_chunks(chunks) == value


def test_what_has_to_last_and_is_too_large_for_ray_is_refused() -> None:
    large = random.Random(1).randbytes(MAX_BYTES + 1)
    assert from_chunks(to_chunks("no", large)) == large
    with pytest.raises(DefinitionError, match=r"the agents cannot travel: it has \d+ bytes, and a detached deployment may have"):
        to_chunks("the agents cannot travel", large, must_last=True)


def test_what_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(DefinitionError, match="a tool cannot travel: TypeError"):
        to_chunks("a tool cannot travel", threading.Lock())


@given(st.lists(st.sampled_from([b"", b"a", b"bc" * 3, b"x" * BLOCK_BYTES, b"y" * (BLOCK_BYTES - 1), b"z" * (BLOCK_BYTES + 1)])))
def test_each_string_is_there_by_its_number(strings: list[bytes]) -> None:
    packed = pickle.loads(pickle.dumps(CompressedStrings.of(strings)))
    assert len(packed) == len(strings)
    assert [packed[number] for number in range(len(strings))] == strings
    with pytest.raises(IndexError):
        packed[len(strings)]


def test_strings_that_say_nearly_the_same_take_little() -> None:
    strings = [b"You are the clerk of department %d. Answer in one sentence, and name the department." % n for n in range(10_000)]
    packed = CompressedStrings.of(strings)
    assert packed[7_777] == strings[7_777]
    assert len(pickle.dumps(packed)) < sum(map(len, strings)) / 4


def test_a_large_string_is_kept_as_it_is() -> None:
    large = b"large" * BLOCK_BYTES
    packed = CompressedStrings.of([b"small", large, b"small"])
    assert len(packed.blocks.joined) > len(large)
    assert [packed[0], packed[1], packed[2]] == [b"small", large, b"small"]


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
