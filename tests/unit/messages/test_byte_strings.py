"""Byte strings in one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.codec import decode, encode
from actors.messages.topology import ByteStrings


@given(st.lists(st.binary(max_size=5)))
def test_byte_strings_are_the_same_after_a_journey(strings: list[bytes]) -> None:
    joined = decode(encode(ByteStrings.of(strings)), ByteStrings)
    assert len(joined) == len(strings)
    assert list(joined) == [joined[number] for number in range(len(strings))] == strings
    assert list(reversed(joined)) == strings[::-1]
    for wrong in (-1, len(strings)):
        with pytest.raises(IndexError):
            joined[wrong]
