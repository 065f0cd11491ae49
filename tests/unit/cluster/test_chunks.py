"""Definitions travel in pieces that Ray keeps with the actor that needs them."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import DefinitionError
from runtime.cluster.packing.chunks import MOST_BYTES, PIECE_BYTES, parcel, unpacked

RAY_INLINES_BYTES = 100 * 1024
"""Ray's max_direct_call_object_size: what an argument may have to travel with the task."""


@given(size=st.integers(0, 5 * PIECE_BYTES), seed=st.integers(0, 100))
def test_a_value_of_any_size_arrives_in_small_pieces(size: int, seed: int) -> None:
    value = random.Random(seed).randbytes(size)
    pieces = parcel("no", value)
    assert max(map(len, pieces)) <= PIECE_BYTES < RAY_INLINES_BYTES
    assert unpacked(pieces) == value


def test_what_has_to_last_and_is_too_large_for_ray_is_refused() -> None:
    large = random.Random(1).randbytes(MOST_BYTES + 1)
    assert unpacked(parcel("no", large)) == large
    with pytest.raises(DefinitionError, match=r"the agents cannot travel: it has \d+ bytes, and a detached deployment may have"):
        parcel("the agents cannot travel", large, must_last=True)


def test_what_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(DefinitionError, match="a tool cannot travel: TypeError"):
        parcel("a tool cannot travel", threading.Lock())
