"""Ids of traces and spans, derived from what they stand for, and the W3C header `traceparent` that carries them.

An actor that takes up what a lost process began derives the ids which that process had given, so its spans belong to the same
tree, and no span has to be handed over.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

from actors.messages.session import SessionKey

TRACE_BYTES, SPAN_BYTES = 16, 8

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SEPARATOR = "\x1f"


class SpanPlace(NamedTuple):
    """A span in its trace.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        is_sampled: spans of the trace are recorded.
    """

    trace_id: str
    span_id: str
    is_sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The place as the value of the header `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"


def parse_traceparent(text: str) -> SpanPlace | None:
    """Read a header `traceparent`; None for one that the W3C's recommendation has receivers ignore."""
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return SpanPlace(trace_id, span_id, bool(int(flags, 16) & 1))


def turn_trace_id(key: SessionKey, generation: str, invocation_id: str) -> str:
    """The trace of a turn whose caller has none."""
    return _digest(TRACE_BYTES, key.app, key.user, key.session, generation, invocation_id)


def turn_span_id(trace_id: str, invocation_id: str, opened_seq: int) -> str:
    """The span of a turn from the message at `opened_seq` on: the first one, or an answer after a pause."""
    return _digest(SPAN_BYTES, trace_id, "turn", invocation_id, opened_seq)


def run_span_id(above: str, agent: str, branch: str | None, transfer_seq: int | None, place: str) -> str:
    """The span of an agent's run, whichever processes carry it out.

    Args:
        above: the span of the run that has asked for it, or of the turn.
        transfer_seq: the position of the transfer by which the agent got the floor.
        place: tells the runs apart that one run asks of the same agent on the same branch.
    """
    return _digest(SPAN_BYTES, above, "run", agent, branch or "", transfer_seq or 0, place)


def _digest(size: int, *names: str | int) -> str:
    text = _SEPARATOR.join(map(str, names))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
