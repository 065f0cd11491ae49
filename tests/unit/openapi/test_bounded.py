"""Bodies are decompressed as far as they are wanted, however they come."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.integrations.openapi.client import beginning


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


ENCODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "plain": ("", bytes),
    "gzip": ("GZIP", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without its header": ("deflate", raw_deflate),
}


async def pieces(sent: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(sent), size):
        yield sent[at : at + size]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(st.binary(max_size=300), st.integers(1, 50), st.integers(1, 310))
async def test_the_beginning_of_a_body_is_that_of_the_whole(encoding: str, data: bytes, size: int, most: int) -> None:
    name, encode = ENCODINGS[encoding]
    assert await beginning(pieces(encode(data), size), name, most) == data[:most]


@pytest.mark.parametrize("name", ["gzip", "br"])
async def test_what_cannot_be_decompressed_is_said(name: str) -> None:
    with pytest.raises(ValueError, match="the answer"):
        await beginning(pieces(b"no gzip at all", 5), name, 10)
