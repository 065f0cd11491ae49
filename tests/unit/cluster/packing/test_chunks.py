"""Definitions travel in chunks that Ray keeps with the actor that needs them."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import DefinitionError
from runtime.cluster.packing.chunks import CHUNK_BYTES, MAX_BYTES, from_chunks, to_chunks

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
