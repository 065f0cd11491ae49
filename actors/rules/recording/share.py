"""Which turns are recorded where only a share of them is."""

from __future__ import annotations

from hashlib import blake2b

_BYTES = 8


def is_recorded(invocation_id: str, share: float) -> bool:
    """Whether the model calls of a turn are recorded: the same in every process, and after every loss.

    Args:
        invocation_id: the turn.
        share: of all turns, from 0 to 1.
    """
    if share <= 0 or share >= 1:
        return share >= 1
    digest = blake2b(invocation_id.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()
    return int.from_bytes(digest) < share * 2.0 ** (8 * _BYTES)
