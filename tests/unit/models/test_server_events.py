"""Server-sent events, in whatever pieces they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from runtime.models.http import ServerEvent, server_events

EVENTS = [
    ServerEvent("", b'{"a": 1}'),
    ServerEvent("error", "ä\u2028 b".encode()),
    ServerEvent("", b"first\nsecond"),
    ServerEvent("ping", b"{}"),
]
SENT = (
    b': a comment\n\ndata: {"a": 1}\r\n\r\nevent: error\nid: 7\ndata:'
    + "ä\u2028 b".encode()
    + b"\n\ndata: first\ndata: second\n\nevent: nothing\n\nevent: ping\ndata: {}\n\ndata: cut off"
)


@given(st.lists(st.integers(0, len(SENT)), max_size=12))
async def test_events_are_the_same_in_whatever_pieces_they_come(cuts: Sequence[int]) -> None:
    bounds = [0, *sorted(cuts), len(SENT)]

    async def pieces() -> AsyncIterator[bytes]:
        for begin, end in pairwise(bounds):
            yield SENT[begin:end]

    assert [event async for event in server_events(pieces())] == EVENTS
