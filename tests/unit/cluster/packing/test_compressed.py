"""Byte strings that are compressed in blocks."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.packing.compressed import BLOCK_BYTES, CompressedStrings


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
