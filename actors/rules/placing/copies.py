"""Whether a copy of a user's data is what the store has of the user now."""

from __future__ import annotations

from hashlib import blake2b

DIGEST_BYTES = 16


def digest_with(before: bytes, part: bytes) -> bytes:
    """The digest of a user's data with one part more.

    Args:
        before: the digest of the parts before it; b"" if it is the first.
    """
    return blake2b(before + part, digest_size=DIGEST_BYTES).digest()
