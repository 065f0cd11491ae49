"""Which version a turn begins with."""

from __future__ import annotations

from hashlib import blake2b

from actors.messages.operating.versions import VersionRecord
from actors.messages.session import SessionKey

_BYTES = 8
_ALL = 1 << (8 * _BYTES)


def version_for(record: VersionRecord, key: SessionKey, created_s: float) -> str:
    """The version that a new turn of a session gets: the same for all its turns, as long as the record stays the same.

    Args:
        created_s: when the session was created, in seconds since the epoch.
    """
    share = record.share
    if share is None or created_s < share.since_s:
        return record.current
    return share.version if _place(share.version, key) < share.part else record.current


def _place(version: str, key: SessionKey) -> float:
    """A number from 0 to 1 that each session has for a version, evenly spread over sessions."""
    named = "\0".join((version, key.app, key.user, key.session)).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(named, digest_size=_BYTES).digest()) / _ALL
