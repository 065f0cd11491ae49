"""Ids of traces and spans, derived from what they stand for.

An actor that takes up what a lost process began derives the ids which that process had given, so its spans belong to the same
tree, and no span has to be handed over.
"""

from __future__ import annotations

from hashlib import blake2b

from actors.messages.session import SessionKey

TRACE_BYTES, SPAN_BYTES = 16, 8

_SEPARATOR = "\x1f"


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
