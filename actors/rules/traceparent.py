"""A span in its trace, and the W3C header `traceparent` that carries it."""

from __future__ import annotations

import re
from typing import NamedTuple

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


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
